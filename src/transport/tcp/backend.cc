#include "transport/tcp/backend.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace colla::transport::tcp {
namespace {

using namespace std::chrono_literals;

constexpr int kMaxFailures = 5;
constexpr auto kPause = 20ms;        // Before the next attempt.
constexpr auto kConnectLimit = 24h;  // The deadline of those who wait comes first.

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// Whom this process lets in: peers that are to connect to it, by their own number. Small: every
// handshake has a copy.
struct NewcomerCheck {
  int self;
  int size;
  int connections;

  Status operator()(const net::Hello& theirs) const {
    if (theirs.peer > self && theirs.peer < size &&
        theirs.stripe < static_cast<std::uint32_t>(connections)) {
      return {};
    }
    return {StatusCode::kRefused,
            fmt::format("{} says that it is peer {} and connects to peer {} "
                        "(connection {} of {})",
                        theirs.name, theirs.peer, self, theirs.stripe + 1, connections)};
  }
};

}  // namespace

Result<std::unique_ptr<TcpBackend>> TcpBackend::create(std::string_view name,
                                                       const Options& options,
                                                       net::HandshakeOptions handshake,
                                                       std::unique_ptr<net::Listener> listener) {
  UniqueFd waker(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!waker.valid()) {
    return {StatusCode::kIo, fmt::format("no eventfd: {}", std::strerror(errno))};
  }
  if (listener == nullptr && options.self + 1 != static_cast<int>(options.peers.size())) {
    return {StatusCode::kInvalidArgument, "only the last peer needs no listener"};
  }
  net::HandshakeOptions accepting = handshake;
  accepting.check = NewcomerCheck{.self = options.self,
                                  .size = static_cast<int>(options.peers.size()),
                                  .connections = options.connections};
  if (listener != nullptr) listener->expect(std::move(accepting));
  handshake.timeout = kConnectLimit;
  return std::unique_ptr<TcpBackend>(
      new TcpBackend(name, options, std::move(handshake), std::move(listener), std::move(waker)));
}

TcpBackend::TcpBackend(std::string_view name, const Options& options,
                       net::HandshakeOptions handshake, std::unique_ptr<net::Listener> listener,
                       UniqueFd waker)
    : name_(name),
      options_(options),
      handshake_(std::move(handshake)),
      waker_(std::move(waker)),
      listener_(std::move(listener)) {}

void TcpBackend::connect(int peer) {
  const MutexLock lock(mutex_);
  for (int stripe = 0; stripe < std::max(options_.connections, 1); ++stripe) {
    Attempt& attempt = attempts_.emplace_back();
    attempt.peer = peer;
    attempt.stripe = static_cast<std::uint32_t>(stripe);
  }
}

void TcpBackend::expect(int peer) {
  const MutexLock lock(mutex_);
  knocks_.emplace_back(peer, options_.peers[static_cast<std::size_t>(peer)].address);
}

void TcpBackend::poll(std::vector<Arrival>& arrivals) {
  const MutexLock lock(mutex_);
  if (listener_ != nullptr && readable(listener_->fd())) {
    for (net::Connection& connection : listener_->step()) {
      arrivals.push_back({connection.hello.peer, std::move(connection.stream), {}});
    }
    for (net::Listener::Misfit& misfit : listener_->takeMisfits()) {
      if (misfit.peer <= options_.self || misfit.peer >= static_cast<int>(options_.peers.size())) {
        continue;
      }
      arrivals.push_back({misfit.peer, nullptr, std::move(misfit.why)});
    }
  }
  for (const Arrival& arrival : arrivals) {
    std::erase_if(knocks_, [&](const auto& knock) { return knock.first == arrival.peer; });
  }
  std::erase_if(knocks_, [&](auto& entry) {
    auto& [peer, knock] = entry;
    const Status status = knock.look();
    if (status.ok()) return false;
    arrivals.push_back(noStream(peer, options_.peers[static_cast<std::size_t>(peer)].name, status));
    return true;
  });
  std::erase_if(attempts_, [&](Attempt& attempt) { return advance(attempt, arrivals); });
}

bool TcpBackend::advance(Attempt& attempt, std::vector<Arrival>& arrivals) {
  const Peer& peer = options_.peers[static_cast<std::size_t>(attempt.peer)];
  if (!attempt.handshake) {
    if (std::chrono::steady_clock::now() < attempt.next) return false;
    net::HandshakeOptions options = handshake_;
    options.hello.stripe = attempt.stripe;
    options.check = [&peer, expected = attempt.peer](const net::Hello& theirs) -> Status {
      if (theirs.peer == expected) return {};
      return {StatusCode::kRefused,
              fmt::format("{} answers at the address of {}", theirs.name, peer.name)};
    };
    auto handshake = net::Handshake::connect(peer.address, options);
    if (!handshake.ok()) return failed(attempt, handshake.status(), arrivals);
    attempt.handshake = *std::move(handshake);
  }
  const auto step = attempt.handshake->step();
  if (!step.ok()) return failed(attempt, step.status(), arrivals);
  attempt.events = *step == net::Step::kWantRead ? POLLIN : POLLOUT;
  if (*step != net::Step::kDone) return false;
  arrivals.push_back({attempt.peer, attempt.handshake->takeStream(), {}});
  return true;
}

bool TcpBackend::failed(Attempt& attempt, const Status& why, std::vector<Arrival>& arrivals) {
  // Nobody listens there, or an address makes no sense: another attempt would not help.
  const bool started = attempt.handshake.has_value() || why.code() == StatusCode::kTimeout;
  if (started && why.code() != StatusCode::kRefused && ++attempt.failures < kMaxFailures) {
    attempt.handshake.reset();
    attempt.next = std::chrono::steady_clock::now() + kPause;
    return false;
  }
  const std::string& name = options_.peers[static_cast<std::size_t>(attempt.peer)].name;
  arrivals.push_back(noStream(attempt.peer, name, why));
  return true;
}

void TcpBackend::sleep(std::span<Watch> watches, Deadline until) {
  polled_.clear();
  polled_.push_back({waker_.get(), POLLIN, 0});
  for (const Watch& watch : watches) {
    const int events = (watch.read ? POLLIN : 0) | (watch.write ? POLLOUT : 0);
    polled_.push_back({watch.stream->fd(), static_cast<short>(events), 0});
  }
  {
    const MutexLock lock(mutex_);
    if (listener_ != nullptr) polled_.push_back({listener_->fd(), POLLIN, 0});
    for (const Attempt& attempt : attempts_) {
      if (attempt.handshake) {
        polled_.push_back({attempt.handshake->fd(), attempt.events, 0});
      } else {
        until = until.earlier(Deadline::at(attempt.next));
      }
    }
    for (const auto& [peer, knock] : knocks_) {
      if (knock.fd() >= 0) polled_.push_back({knock.fd(), POLLIN, 0});
      until = until.earlier(Deadline::at(knock.next()));
    }
  }

  const auto look = [&](std::chrono::nanoseconds limit) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
    const timespec timeout{seconds.count(), (limit - seconds).count()};
    return ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
  };
  const Deadline spin = Deadline::after(options_.spin.here()).earlier(until);
  int count = look(0ns);
  while (count == 0 && !spin.expired()) {
    sched_yield();
    count = look(0ns);
  }
  if (count == 0) count = look(until.remaining());
  if (count <= 0) return;

  if (polled_.front().revents != 0) {
    std::uint64_t rings = 0;
    (void)!read(waker_.get(), &rings, sizeof(rings));
  }
  for (std::size_t i = 0; i < watches.size(); ++i) watches[i].ready = polled_[i + 1].revents != 0;
}

void TcpBackend::wake() {
  const std::uint64_t one = 1;
  (void)!write(waker_.get(), &one, sizeof(one));
}

}  // namespace colla::transport::tcp
