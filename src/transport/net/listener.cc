#include "transport/net/listener.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "transport/net/socket.h"

namespace colla::transport::net {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSocketId = 0;
constexpr std::uint64_t kTimerId = 1;
constexpr std::uint64_t kFirstId = 2;
constexpr std::size_t kMaxLogged = 256;  // Different refusals; a flood of them is one more line.
constexpr auto kPause = 100ms;           // Without descriptors, before accepting again.
// A pause is so many times as long as the step before it, which sent strangers away; to accept them
// had taken about as long.
constexpr int kPauseOfStep = 200;
constexpr auto kLongestStep = 1ms;                      // With strangers at the door.
constexpr std::chrono::nanoseconds kLongestPause = 1s;  // Where the system held a step up.

std::uint32_t eventsFor(Step step) { return step == Step::kWantRead ? EPOLLIN : EPOLLOUT; }

std::size_t halfOpenLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return Listener::kMaxHalfOpen;
  return std::clamp<std::size_t>(files.rlim_cur / 2, 1, Listener::kMaxHalfOpen);
}

}  // namespace

Listener::Listener(std::string address, UniqueFd socket, HandshakeOptions options)
    : address_(std::move(address)),
      maxHalfOpen_(halfOpenLimit()),
      options_(std::move(options)),
      socket_(std::move(socket)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      nextId_(kFirstId) {}

Result<std::unique_ptr<Listener>> Listener::open(const std::string& text,
                                                 HandshakeOptions options) {
  COLLA_TRY_ASSIGN(const Address address, Address::parse(text));
  if (!address.isUnix() && options.secret.empty()) {
    return {StatusCode::kRefused,
            fmt::format("listening on {} needs the job's secret, or anybody could join: use "
                        "`colla run` or set COLLA_SECRET_FILE",
                        text)};
  }
  COLLA_TRY_ASSIGN(UniqueFd socket, listenOn(address));
  COLLA_TRY_ASSIGN(const Address bound, Address::ofLocalEnd(socket.get()));
  std::unique_ptr<Listener> listener(
      new Listener(bound.text(), std::move(socket), std::move(options)));
  if (!listener->epoll_.valid() || !listener->timer_.valid()) {
    return {StatusCode::kIo, fmt::format("no epoll or timer: {}", std::strerror(errno))};
  }
  COLLA_TRY(listener->watch(listener->socket_.get(), EPOLLIN, kSocketId, false));
  COLLA_TRY(listener->watch(listener->timer_.get(), EPOLLIN, kTimerId, false));
  return listener;
}

Status Listener::watch(int fd, std::uint32_t events, Id id, bool known) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return {StatusCode::kIo, fmt::format("epoll_ctl: {}", std::strerror(errno))};
}

std::vector<Connection> Listener::step() {
  began_ = std::chrono::steady_clock::now();
  dropped_ = 0;
  std::vector<Connection> done;
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  bool arrivals = false;
  for (int i = 0; i < count; ++i) {
    const Id id = events[static_cast<std::size_t>(i)].data.u64;
    if (id == kSocketId) {
      arrivals = true;
    } else if (id == kTimerId) {
      std::uint64_t expirations = 0;
      (void)!read(timer_.get(), &expirations, sizeof(expirations));
    } else {
      advance(id, done);
    }
  }
  // After the known ones: a drop must not take one whose event is still in the list above.
  if (arrivals) acceptAll();
  dropExpired();
  const TimePoint now = std::chrono::steady_clock::now();
  if (dropped_ > 0) {
    pauseAccepting(std::min(kPauseOfStep * (now - began_), kLongestPause));
  } else if (!accepting_ && now >= resumeAt_) {
    resumeAt_ = TimePoint::max();
    accepting_ = watch(socket_.get(), EPOLLIN, kSocketId, true).ok();
  }
  armTimer();
  return done;
}

void Listener::acceptAll() {
  while (dropped_ == 0 || std::chrono::steady_clock::now() - began_ < kLongestStep) {
    auto accepted = acceptOn(socket_.get());
    if (!accepted.ok()) return complain(accepted.status());
    if (!accepted->valid()) return;
    if (handshakes_.size() >= maxHalfOpen_) {
      drop(handshakes_.begin()->first, Handshake::Failure::kTimeout,
           {StatusCode::kTimeout, "too many handshakes were under way and this was the oldest"});
    }
    const auto remote = Address::ofRemoteEnd(accepted->get());
    const int fd = accepted->get();
    const Id id = nextId_++;
    HalfOpen half{Handshake::accept(*std::move(accepted), options_),
                  !remote.ok()       ? "an unknown host"
                  : remote->isUnix() ? "this host"
                                     : remote->host(),
                  EPOLLIN};
    handshakes_.emplace(id, std::move(half));
    if (Status status = watch(fd, EPOLLIN, id, false); !status.ok()) {
      drop(id, Handshake::Failure::kLost, status);
    }
  }
}

// Out of descriptors.
void Listener::complain(const Status& why) {
  if (logged_.emplace(Handshake::Failure::kNone, address_).second) {
    log::error("{} cannot take connections for now: {}; raise `ulimit -n`", address_,
               why.message());
  }
  pauseAccepting(kPause);
}

// Leaves the connections in the kernel's queue for a while.
void Listener::pauseAccepting(std::chrono::nanoseconds pause) {
  if (accepting_ && !watch(socket_.get(), 0, kSocketId, true).ok()) return;
  const TimePoint until = std::chrono::steady_clock::now() + pause;
  resumeAt_ = accepting_ ? until : std::max(resumeAt_, until);
  accepting_ = false;
}

void Listener::advance(Id id, std::vector<Connection>& done) {
  const auto it = handshakes_.find(id);
  if (it == handshakes_.end()) return;
  HalfOpen& half = it->second;
  if (!half.spoke) {
    std::byte first{};
    const ssize_t count = recv(half.handshake.fd(), &first, 1, MSG_PEEK);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return forget(it);
    half.spoke = count > 0;
  }
  const auto step = half.handshake.step();
  if (!step.ok()) return drop(id, half.handshake.failure(), step.status());
  if (*step == Step::kDone) {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, half.handshake.fd(), nullptr);
    Hello theirs = half.handshake.theirs();
    done.push_back({half.handshake.takeStream(), std::move(theirs)});
    handshakes_.erase(it);
    return;
  }
  if (const std::uint32_t events = eventsFor(*step); events != half.events) {
    half.events = events;
    if (Status status = watch(half.handshake.fd(), events, id, true); !status.ok()) {
      drop(id, Handshake::Failure::kLost, status);
    }
  }
}

// All have the same time limit, so the oldest expires first.
void Listener::dropExpired() {
  const TimePoint now = std::chrono::steady_clock::now();
  while (!handshakes_.empty()) {
    const auto& [id, half] = *handshakes_.begin();
    if (!half.handshake.deadline().expired(now)) return;
    drop(id, Handshake::Failure::kTimeout,
         {StatusCode::kTimeout, "it did not finish the handshake in time"});
  }
}

void Listener::drop(Id id, Handshake::Failure failure, const Status& why) {
  const auto it = handshakes_.find(id);
  const std::string remote = it->second.remote;
  const Hello& theirs = it->second.handshake.theirs();
  if (failure == Handshake::Failure::kMixed && theirs.peer >= 0 &&
      theirs.jobId == options_.hello.jobId && theirs.epoch == options_.hello.epoch &&
      misfits_.size() < kMaxHalfOpen) {
    misfits_.push_back({theirs.peer, why});
  }
  forget(it);
  if (logged_.size() > kMaxLogged || !logged_.emplace(failure, remote).second) return;
  if (logged_.size() > kMaxLogged) {
    log::warn("{} refused connections from many hosts; further ones are not logged", address_);
  } else {
    log::warn("{} refused a connection from {}: {}", address_, remote, why.message());
  }
}

void Listener::forget(std::map<Id, HalfOpen>::iterator it) {
  handshakes_.erase(it);  // Closing its descriptor takes it out of epoll.
  ++dropped_;
}

void Listener::armTimer() {
  TimePoint next = resumeAt_;
  if (!handshakes_.empty()) {
    next = std::min(next, handshakes_.begin()->second.handshake.deadline().when());
  }
  itimerspec spec{};
  if (next != TimePoint::max()) {
    const auto left = std::max<std::chrono::nanoseconds>(next - std::chrono::steady_clock::now(),
                                                         1ns);  // 0 would disarm it.
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    spec.it_value = {seconds.count(), (left - seconds).count()};
  }
  (void)timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

}  // namespace colla::transport::net
