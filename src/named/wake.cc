#include "named/wake.h"

#include <vector>

namespace colla::named {
namespace {

// Apart from the steps of a Mailbox, though nobody has one to itself.
constexpr std::uint32_t kWakeStep = 2;

}  // namespace

Wake::Wake(transport::Transport* transport, std::uint32_t group)
    : transport_(transport), group_(group) {
  const MutexLock lock(mutex_);
  listen();
}

Wake::~Wake() {
  if (transport_ == nullptr) return;
  transport::Request* const requests[] = {&incoming_, &outgoing_};
  static_cast<void>(transport_->wait(requests, Deadline::at(TimePoint::min())));
}

void Wake::listen() {
  if (transport_ == nullptr) return;
  transport_->recv(transport_->self(),
                   {.group = group_, .sequence = number_, .step = kWakeStep, .call = {}}, {},
                   incoming_);
}

void Wake::ring() {
  const MutexLock lock(mutex_);
  if (rung_) return;
  rung_ = true;
  if (transport_ == nullptr) {
    changed_.notify_one();
    return;
  }
  transport_->send(transport_->self(),
                   {.group = group_, .sequence = number_, .step = kWakeStep, .call = {}}, {},
                   outgoing_);
}

void Wake::wait(std::span<transport::Request*> requests, Deadline deadline) {
  if (transport_ != nullptr) {
    std::vector<transport::Request*> all(requests.begin(), requests.end());
    all.push_back(&incoming_);
    transport_->waitAny(all, deadline);
  }
  const MutexLock lock(mutex_);
  if (transport_ == nullptr) {
    while (!rung_ && !deadline.expired()) changed_.wait_for(mutex_, deadline.remaining());
    rung_ = false;
  } else if (rung_ && incoming_.done()) {
    rung_ = false;
    ++number_;
    listen();
  }
}

}  // namespace colla::named
