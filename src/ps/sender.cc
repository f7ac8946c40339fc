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

void Client::Sender::send(int peer, std::uint32_t channel, std::uint32_t sequence, const Ask& ask,
                          std::vector<std::span<const std::byte>> partials) {
  {
    const MutexLock lock(mutex_);
    parcels_.push_back({peer, channel, sequence, encode(ask), std::move(partials)});
  }
  changed_.notify_all();
}

void Client::Sender::finish() {
  const MutexLock lock(mutex_);
  while (!parcels_.empty() || busy_) changed_.wait(mutex_);
}

void Client::Sender::run() {
  const transport::BackgroundThread background;
  std::vector<transport::Request*> pending;
  mutex_.lock();
  while (true) {
    while (!closing_ && parcels_.empty()) changed_.wait(mutex_);
    if (closing_) break;
    const Parcel parcel = std::move(parcels_.front());
    parcels_.pop_front();
    busy_ = true;
    mutex_.unlock();
    std::deque<transport::Request> requests(parcel.partials.size() + 1);
    pending.clear();
    for (transport::Request& request : requests) pending.push_back(&request);
    transport_.send(parcel.peer, envelopeOf(parcel.channel, parcel.sequence, kAskStep), parcel.ask,
                    requests[0]);
    for (std::uint32_t i = 0; i < parcel.partials.size(); ++i) {
      transport_.send(parcel.peer, envelopeOf(parcel.channel, parcel.sequence, kPayloadStep + i),
                      parcel.partials[i], requests[i + 1]);
    }
    static_cast<void>(transport_.wait(pending, Deadline::after(kPatience)));
    mutex_.lock();
    busy_ = false;
    changed_.notify_all();
  }
  mutex_.unlock();
}

}  // namespace colla::ps
