// Takes connections, lets those in that pass the handshake, and keeps everybody else from
// disturbing.
//
// Any number of handshakes is under way at once, none of which blocks another; beyond
// maxHalfOpen() the oldest one is dropped. Who is refused is logged once per reason and remote
// host; who goes without having said a word is not (see Knock).
//
// Strangers take about a hundredth of the owner's time, however many they are and however often
// they return: after each step that sent some away, the listener leaves newcomers in the kernel's
// queue for a while that is long beside the step. Processes of the job cause no such pause.
//
// Not thread safe. The owner polls fd() for reading together with whatever else it waits for, and
// calls step() when it is readable; time limits are part of fd().
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"
#include "transport/net/handshake.h"

namespace colla::transport::net {

class Listener {
 public:
  // The limit where `ulimit -n` allows it; see maxHalfOpen().
  static constexpr std::size_t kMaxHalfOpen = 1024;

  // `address` as Address takes it; port 0 picks one. kRefused for TCP without a secret: anybody on
  // the network, or on this host, could join.
  static Result<std::unique_ptr<Listener>> open(const std::string& address,
                                                HandshakeOptions options);

  // What newcomers are told and asked from now on: who listens may learn its place in the job only
  // later. Before the first step().
  void expect(HandshakeOptions options) { options_ = std::move(options); }

  // Where others connect to, with the port that was picked.
  const std::string& address() const { return address_; }
  int fd() const { return epoll_.get(); }

  // A process of this job and epoch, proved to know the secret (or to be of our user), that was
  // refused all the same: its versions or settings differ. Nobody will come in its place.
  struct Misfit {
    int peer;
    Status why;
  };

  // Goes on with whatever can go on, without waiting; the connections that came through.
  std::vector<Connection> step();
  // Those refused since the last call.
  std::vector<Misfit> takeMisfits() { return std::exchange(misfits_, {}); }

  std::size_t halfOpen() const { return handshakes_.size(); }
  // How many handshakes may be under way: half of the process's descriptors are not for strangers.
  std::size_t maxHalfOpen() const { return maxHalfOpen_; }
  // Lines logged about refusals so far.
  std::size_t refusalsLogged() const { return logged_.size(); }

 private:
  using Id = std::uint64_t;  // In the order of arrival; also epoll's data.
  struct HalfOpen {
    Handshake handshake;
    std::string remote;
    std::uint32_t events;
    bool spoke = false;
  };

  Listener(std::string address, UniqueFd socket, HandshakeOptions options);
  Status watch(int fd, std::uint32_t events, Id id, bool known);
  void acceptAll();
  void complain(const Status& why);
  void pauseAccepting(std::chrono::nanoseconds pause);
  void advance(Id id, std::vector<Connection>& done);
  void dropExpired();
  void drop(Id id, Handshake::Failure failure, const Status& why);
  void forget(std::map<Id, HalfOpen>::iterator it);
  void armTimer();

  const std::string address_;
  const std::size_t maxHalfOpen_;
  HandshakeOptions options_;
  UniqueFd socket_;
  UniqueFd epoll_;
  UniqueFd timer_;
  bool accepting_ = true;
  TimePoint resumeAt_ = TimePoint::max();  // While not accepting.
  TimePoint began_;                        // This step,
  int dropped_ = 0;                        // in which so many were sent away, or went.
  Id nextId_;
  std::map<Id, HalfOpen> handshakes_;
  std::set<std::pair<Handshake::Failure, std::string>> logged_;
  std::vector<Misfit> misfits_;
};

}  // namespace colla::transport::net
