#include "transport/ucx/worker.h"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "transport/net/keys.h"

namespace colla::transport::ucx {
namespace {

using namespace std::chrono_literals;

constexpr auto kCloseLimit = 1s;

// As long as it lives, threads that start here take no signals: those are for the program's own.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

// The user's own settings that may be why.
std::string settings() {
  std::string text;
  for (const char* name : {"UCX_TLS", "UCX_NET_DEVICES"}) {
    if (const char* value = std::getenv(name)) text += fmt::format("; {} is {}", name, value);
  }
  return text;
}

}  // namespace

Result<std::shared_ptr<Worker>> Worker::create(const std::string& devices,
                                               std::function<void()> wake) {
  const NoSignals quiet;
  COLLA_TRY_ASSIGN(const Library* const library, Library::load());
  std::shared_ptr<Worker> worker(new Worker(*library, std::move(wake)));
  COLLA_TRY(worker->start(devices));
  return worker;
}

Worker::~Worker() {
  if (flush_ != nullptr) library_->requestFree(flush_);
  if (worker_ != nullptr) library_->workerDestroy(worker_);
  if (context_ != nullptr) library_->cleanup(context_);
}

Status Worker::start(const std::string& devices) {
  (void)Library::takeComplaint();
  ucp_config_t* config = nullptr;
  if (const auto status = library_->configRead(nullptr, nullptr, &config); status != UCS_OK) {
    return failure("can't read its settings", status);
  }
  if (!devices.empty() && std::getenv("UCX_NET_DEVICES") == nullptr) {
    (void)library_->configModify(config, "NET_DEVICES", devices.c_str());
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "colla";
  const auto made = library_->initVersion(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  library_->configRelease(config);
  if (made != UCS_OK) return failure("can't start", made);

  ucp_worker_params_t workerParams{};
  workerParams.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  workerParams.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const auto status = library_->workerCreate(context_, &workerParams, &worker_);
      status != UCS_OK) {
    return failure("can't start", status);
  }
  if (const auto status = library_->workerGetEfd(worker_, &fd_); status != UCS_OK) {
    return failure("can't wait without spinning", status);
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &Worker::onMessage;
  handler.arg = this;
  if (const auto status = library_->workerSetAmRecvHandler(worker_, &handler); status != UCS_OK) {
    return failure("has no active messages", status);
  }
  ucp_address_t* address = nullptr;
  std::size_t size = 0;
  if (const auto status = library_->workerGetAddress(worker_, &address, &size); status != UCS_OK) {
    return failure("has no address", status);
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(address);
  address_.assign(bytes, bytes + size);
  library_->workerReleaseAddress(worker_, address);
  return {};
}

Status Worker::failure(std::string_view what, ucs_status_t status) const {
  std::string why = Library::takeComplaint();
  if (why.empty()) why = library_->statusString(status);
  return {StatusCode::kIo, fmt::format("UCX {}: {}{}", what, why, settings())};
}

std::uint64_t Worker::add(Link& link) {
  std::uint64_t number = 0;
  do {
    net::fillRandom(std::as_writable_bytes(std::span(&number, 1)));
  } while (!links_.emplace(number, &link).second);
  return number;
}

bool Worker::progress() {
  const bool moved = library_->workerProgress(worker_) != 0;
  if (moved) wakeSleeper();
  if (unsettled_.empty()) return moved;
  settling_.clear();
  settling_.swap(unsettled_);
  for (const std::uint64_t number : settling_) {
    if (const auto link = links_.find(number); link != links_.end()) link->second->settle();
  }
  return true;
}

bool Worker::progressUntil(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
  const Deadline deadline = Deadline::after(limit);
  wakeSleeper();
  while (!done()) {
    if (library_->workerProgress(worker_) == 0 && deadline.expired()) return false;
  }
  return true;
}

bool Worker::inFlight() {
  (void)progress();
  if (flush_ == nullptr && !std::exchange(flushed_, true)) {
    const ucp_request_param_t param{};
    void* const request = library_->workerFlushNbx(worker_, &param);
    if (!UCS_PTR_IS_ERR(request)) flush_ = request;
  }
  if (flush_ == nullptr) return false;
  if (library_->requestCheckStatus(flush_) == UCS_INPROGRESS) return true;
  library_->requestFree(std::exchange(flush_, nullptr));
  return !flushed_;
}

bool Worker::arm() { return library_->workerArm(worker_) == UCS_OK; }

ucs_status_t Worker::onMessage(void* self, const void* header, std::size_t headerSize, void* data,
                               std::size_t size, const ucp_am_recv_param_t* param) {
  if (headerSize != sizeof(Header)) return UCS_OK;
  Header parsed;
  std::memcpy(&parsed, header, sizeof(parsed));
  auto& links = static_cast<Worker*>(self)->links_;
  const auto link = links.find(parsed.link);
  if (link == links.end()) return UCS_OK;
  const bool fetched = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (fetched != (parsed.kind == PacketKind::kBody)) return UCS_OK;
  if (fetched) return link->second->onBody(parsed, data, size) ? UCS_INPROGRESS : UCS_OK;
  link->second->onPacket(parsed, {static_cast<const std::byte*>(data), size});
  return UCS_OK;
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(Worker& worker,
                                                   std::span<const std::byte> address) {
  std::unique_ptr<Endpoint> made(new Endpoint(worker));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.arg = made.get();
  params.err_handler.cb = [](void* self, ucp_ep_h, ucs_status_t status) {
    static_cast<Endpoint*>(self)->error_ = status;
  };
  (void)Library::takeComplaint();
  const auto status = worker.library().epCreate(worker.get(), &params, &made->endpoint_);
  if (status != UCS_OK) return worker.failure("can't reach it", status);
  return made;
}

void Endpoint::close() {
  if (endpoint_ == nullptr) return;
  const Library& library = worker_.library();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = library.epCloseNbx(std::exchange(endpoint_, nullptr), &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) return;
  worker_.assumeLocked();
  (void)worker_.progressUntil([&] { return library.requestCheckStatus(request) != UCS_INPROGRESS; },
                              kCloseLimit);
  library.requestFree(request);
}

}  // namespace colla::transport::ucx
