#include "ps/sender.h"

#include "transport/spin.h"

namespace colla::ps {
namespace {

// A server that takes nothing for so long is stuck; whoever waits for its answer says so.
constexpr std::chrono::minutes kPatience{10};

}  // namespace

Client::Sender::Sender(transport::Transport& transport)
    : transport_(transport), thread_([this] { run(); }) {}

Client::Sender::~Sender() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    parcels_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void Client::Sender::send(Channel& server, const Ask& ask, Pack pack) {
  {
    const MutexLock lock(mutex_);
    parcels_.push_back({server.peer(), server.number(), server.reserve(), ask, std::move(pack)});
  }
  changed_.notify_all();
}

Status Client::Sender::finish() {
  const MutexLock lock(mutex_);
  while (!parcels_.empty() || busy_) changed_.wait(mutex_);
  return failure_;
}

Status Client::Sender::send(Parcel parcel) {
  COLLA_TRY_ASSIGN(const Payload payload, parcel.pack(parcel.ask));
  const std::vector<std::byte> ask = encode(parcel.ask);
  std::deque<transport::Request> requests(payload.parts.size() + 1);
  std::vector<transport::Request*> pending;
  for (transport::Request& request : requests) pending.push_back(&request);
  transport_.send(parcel.peer, envelopeOf(parcel.channel, parcel.sequence, kAskStep), ask,
                  requests[0]);
  for (std::uint32_t i = 0; i < payload.parts.size(); ++i) {
    transport_.send(parcel.peer, envelopeOf(parcel.channel, parcel.sequence, kPayloadStep + i),
                    payload.parts[i], requests[i + 1]);
  }
  static_cast<void>(transport_.wait(pending, Deadline::after(kPatience)));
  return {};
}

void Client::Sender::run() {
  const transport::BackgroundThread background;
  mutex_.lock();
  while (true) {
    while (!closing_ && parcels_.empty()) changed_.wait(mutex_);
    if (closing_) break;
    Parcel parcel = std::move(parcels_.front());
    parcels_.pop_front();
    busy_ = true;
    const bool failed = !failure_.ok();
    mutex_.unlock();
    Status status = failed ? Status() : send(std::move(parcel));
    mutex_.lock();
    if (!status.ok()) failure_ = std::move(status);
    busy_ = false;
    changed_.notify_all();
  }
  mutex_.unlock();
}

}  // namespace colla::ps
