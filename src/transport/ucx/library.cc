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

class Symbols {
 public:
  // Never closed: UCX has a thread of its own.
  explicit Symbols(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {}
  bool loaded() const { return handle_ != nullptr; }
  template <typename Function>
  bool find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  void* const handle_;
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
  const Symbols ucp("libucp.so.0");
  if (!ucp.loaded()) return notThere(dlerror());
  const Symbols ucs("libucs.so.0");  // libucp has loaded it already.
  if (!ucs.loaded()) return notThere(dlerror());

  Library library{};
  const bool complete =
      ucp.find(library.configRead, "ucp_config_read") &&
      ucp.find(library.configModify, "ucp_config_modify") &&
      ucp.find(library.configRelease, "ucp_config_release") &&
      ucp.find(library.initVersion, "ucp_init_version") &&
      ucp.find(library.cleanup, "ucp_cleanup") &&
      ucp.find(library.workerCreate, "ucp_worker_create") &&
      ucp.find(library.workerDestroy, "ucp_worker_destroy") &&
      ucp.find(library.workerGetAddress, "ucp_worker_get_address") &&
      ucp.find(library.workerReleaseAddress, "ucp_worker_release_address") &&
      ucp.find(library.workerGetEfd, "ucp_worker_get_efd") &&
      ucp.find(library.workerArm, "ucp_worker_arm") &&
      ucp.find(library.workerProgress, "ucp_worker_progress") &&
      ucp.find(library.workerFlushNbx, "ucp_worker_flush_nbx") &&
      ucp.find(library.workerSetAmRecvHandler, "ucp_worker_set_am_recv_handler") &&
      ucp.find(library.epCreate, "ucp_ep_create") &&
      ucp.find(library.epCloseNbx, "ucp_ep_close_nbx") &&
      ucp.find(library.amSendNbx, "ucp_am_send_nbx") &&
      ucp.find(library.amRecvDataNbx, "ucp_am_recv_data_nbx") &&
      ucp.find(library.amDataRelease, "ucp_am_data_release") &&
      ucp.find(library.requestCheckStatus, "ucp_request_check_status") &&
      ucp.find(library.requestFree, "ucp_request_free") &&
      ucs.find(library.statusString, "ucs_status_string");
  if (!complete) return notThere("this one is older");
  decltype(&ucs_log_push_handler) pushHandler = nullptr;
  const bool logs =
      std::getenv("UCX_LOG_LEVEL") != nullptr || std::getenv("UCX_LOG_FILE") != nullptr;
  if (!logs && ucs.find(pushHandler, "ucs_log_push_handler")) pushHandler(takeLine);
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
