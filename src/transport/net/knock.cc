#include "transport/net/knock.h"

#include <poll.h>

#include <chrono>
#include <utility>

#include "transport/net/address.h"
#include "transport/net/socket.h"

namespace colla::transport::net {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 200ms;
constexpr auto kBetween = 20ms;  // Attempts.
constexpr auto kRenewal = 5s;    // Before a listener runs out of patience with the silent.
// The last word of a process that has left may be in our own listener's queue: it is taken there
// before the next attempt.
constexpr int kMostRefusals = 3;

}  // namespace

Knock::Knock(std::string address)
    : address_(std::move(address)), next_(std::chrono::steady_clock::now() + kPatience) {}

Status Knock::look() {
  const TimePoint now = std::chrono::steady_clock::now();
  if (!fd_.valid()) {
    if (now < next_) return {};
    next_ = now + kRenewal;
    COLLA_TRY_ASSIGN(const Address address, Address::parse(address_));
    auto started = startConnect(address);
    if (started.status().code() == StatusCode::kPeerLost) return refused(started.status());
    if (started.ok()) fd_ = *std::move(started);  // Otherwise its queue is full: it is there.
    return {};
  }
  pollfd entry{fd_.get(), POLLIN | POLLOUT, 0};
  const bool known = poll(&entry, 1, 0) > 0;
  if (known && entry.revents != POLLOUT) {  // It was refused, or closed since.
    COLLA_TRY_ASSIGN(const Address address, Address::parse(address_));
    return refused(finishConnect(fd_.get(), address));
  }
  if (known) refusals_ = 0;
  if (now < next_) return {};
  if (known) fd_.reset();
  next_ = known ? now : now + kRenewal;
  return {};
}

Status Knock::refused(const Status& why) {
  fd_.reset();
  next_ = std::chrono::steady_clock::now() + kBetween;
  return why.ok() || ++refusals_ < kMostRefusals ? Status() : why;
}

}  // namespace colla::transport::net
