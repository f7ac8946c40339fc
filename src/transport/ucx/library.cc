#include "transport/ucx/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/loaded_library.h"
#include "base/log.h"

namespace colla::transport::ucx {
namespace {

// UCX's handlers of log lines have no argument.
thread_local std::string complaint;

ucs_log_func_rc_t takeLine(const char* file, unsigned line, const char*, ucs_log_level_t level,
                           const ucs_log_component_config_t*, const char* message, va_list values) {
  char text[512];
  (void)std::vsnprintf(text, sizeof(text), message, values);
  if (level == UCS_LOG_LEVEL_FATAL) {
    log::error("UCX: {} ({}:{})", text, file, line);
  } else {
    log::debug("UCX: {} ({}:{})", text, file, line);
  }
  if (level <= UCS_LOG_LEVEL_WARN) complaint = text;
  return UCS_LOG_FUNC_RC_STOP;
}

// What UCX takes from the environment alone, while it is loaded: from then on it has handlers on
// SIGSEGV and others, and has rewritten the first instructions of munmap() and its like. The user's
// own values stay. Other threads must not read the environment meanwhile.
class LoadingEnvironment {
 public:
  LoadingEnvironment() {
    for (auto& [name, value, set] : settings_) {
      set = std::getenv(name) == nullptr && setenv(name, value, /*overwrite=*/0) == 0;
    }
  }
  ~LoadingEnvironment() {
    for (const auto& [name, value, set] : settings_) {
      if (set) (void)unsetenv(name);
    }
  }
  LoadingEnvironment(const LoadingEnvironment&) = delete;
  LoadingEnvironment& operator=(const LoadingEnvironment&) = delete;

 private:
  struct Setting {
    const char* name;
    const char* value;
    bool set = false;  // By us.
  };
  Setting settings_[2] = {{"UCX_HANDLE_ERRORS", "none"}, {"UCX_MEM_EVENTS", "n"}};
};

Status notThere(std::string_view why) {
  return {
      StatusCode::kInvalidArgument,
      fmt::format("the transport ucx needs UCX 1.13 or later ({}): install Debian's libucx0, or "
                  "use another transport",
                  why)};
}

Result<Library> loadNow() {
  const LoadingEnvironment environment;
  const LoadedLibrary ucp("libucp.so.0");
  if (!ucp.loaded()) return notThere(dlerror());
  const LoadedLibrary ucs("libucs.so.0");  // libucp has loaded it already.
  if (!ucs.loaded()) return notThere(dlerror());

  Library library{};
  const bool complete =
      ucp.find("ucp_config_read", library.configRead) &&
      ucp.find("ucp_config_modify", library.configModify) &&
      ucp.find("ucp_config_release", library.configRelease) &&
      ucp.find("ucp_init_version", library.initVersion) &&
      ucp.find("ucp_cleanup", library.cleanup) &&
      ucp.find("ucp_worker_create", library.workerCreate) &&
      ucp.find("ucp_worker_destroy", library.workerDestroy) &&
      ucp.find("ucp_worker_get_address", library.workerGetAddress) &&
      ucp.find("ucp_worker_release_address", library.workerReleaseAddress) &&
      ucp.find("ucp_worker_get_efd", library.workerGetEfd) &&
      ucp.find("ucp_worker_arm", library.workerArm) &&
      ucp.find("ucp_worker_progress", library.workerProgress) &&
      ucp.find("ucp_worker_flush_nbx", library.workerFlushNbx) &&
      ucp.find("ucp_worker_set_am_recv_handler", library.workerSetAmRecvHandler) &&
      ucp.find("ucp_ep_create", library.epCreate) &&
      ucp.find("ucp_ep_close_nbx", library.epCloseNbx) &&
      ucp.find("ucp_am_send_nbx", library.amSendNbx) &&
      ucp.find("ucp_am_recv_data_nbx", library.amRecvDataNbx) &&
      ucp.find("ucp_am_data_release", library.amDataRelease) &&
      ucp.find("ucp_request_check_status", library.requestCheckStatus) &&
      ucp.find("ucp_request_free", library.requestFree) &&
      ucs.find("ucs_status_string", library.statusString);
  if (!complete) return notThere("this one is older");
  decltype(&ucs_log_push_handler) pushHandler = nullptr;
  const bool logs =
      std::getenv("UCX_LOG_LEVEL") != nullptr || std::getenv("UCX_LOG_FILE") != nullptr;
  if (!logs && ucs.find("ucs_log_push_handler", pushHandler)) pushHandler(takeLine);
  return library;
}

}  // namespace

Result<const Library*> Library::load() {
  static const Result<Library> kLibrary = loadNow();
  if (!kLibrary.ok()) return kLibrary.status();
  return &*kLibrary;
}

std::string Library::takeComplaint() { return std::exchange(complaint, {}); }

}  // namespace colla::transport::ucx
