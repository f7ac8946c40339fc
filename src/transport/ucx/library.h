// UCX, loaded when it is first wanted: a machine without it runs everything else.
//
// The version is that of the headers or a later one of the same major version. What UCX does to a
// process beyond its calls is undone: no signal handlers, no hooks into malloc and mmap, and its
// log lines come as ours at level debug. A user who sets UCX's own variables for these has them
// obeyed.
//
// Thread safety: load() from any thread; the functions as UCX says.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "colla/status.h"

namespace colla::transport::ucx {

struct Library {
  decltype(&ucp_config_read) configRead;
  decltype(&ucp_config_modify) configModify;
  decltype(&ucp_config_release) configRelease;
  decltype(&ucp_init_version) initVersion;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_worker_create) workerCreate;
  decltype(&ucp_worker_destroy) workerDestroy;
  decltype(&ucp_worker_get_address) workerGetAddress;
  decltype(&ucp_worker_release_address) workerReleaseAddress;
  decltype(&ucp_worker_get_efd) workerGetEfd;
  decltype(&ucp_worker_arm) workerArm;
  decltype(&ucp_worker_progress) workerProgress;
  decltype(&ucp_worker_flush_nbx) workerFlushNbx;
  decltype(&ucp_worker_set_am_recv_handler) workerSetAmRecvHandler;
  decltype(&ucp_ep_create) epCreate;
  decltype(&ucp_ep_close_nbx) epCloseNbx;
  decltype(&ucp_am_send_nbx) amSendNbx;
  decltype(&ucp_am_recv_data_nbx) amRecvDataNbx;
  decltype(&ucp_am_data_release) amDataRelease;
  decltype(&ucp_request_check_status) requestCheckStatus;
  decltype(&ucp_request_free) requestFree;
  decltype(&ucs_status_string) statusString;

  // The same for the whole process, and never unloaded. kInvalidArgument with what to install.
  static Result<const Library*> load();

  // What UCX has logged last on this thread, which its status codes don't tell; empties it.
  static std::string takeComplaint();
};

}  // namespace colla::transport::ucx
