// Streams over sockets, and poll() to wait for them.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "transport/backend.h"
#include "transport/net/handshake.h"
#include "transport/net/knock.h"
#include "transport/net/listener.h"
#include "transport/options.h"

namespace colla::transport::tcp {

class TcpBackend final : public Backend {
 public:
  static Result<std::unique_ptr<TcpBackend>> create(std::string_view name, const Options& options,
                                                    net::HandshakeOptions handshake,
                                                    std::unique_ptr<net::Listener> listener);

  std::string_view name() const override { return name_; }
  bool stripes() const override { return true; }
  void connect(int peer) override;
  void expect(int peer) override;
  void poll(std::vector<Arrival>& arrivals) override;
  void sleep(std::span<Watch> watches, Deadline until) override;
  void wake() override;

 private:
  // A connection that this side makes. It has failed for good when the other side says no or does
  // not listen; a handshake that breaks is tried again, since the other side may only have given
  // up on us while nobody waited here.
  struct Attempt {
    int peer;
    std::uint32_t stripe;
    int failures = 0;
    TimePoint next{};  // When to start, while there is no handshake.
    std::optional<net::Handshake> handshake;
    short events = 0;
  };

  TcpBackend(std::string_view name, const Options& options, net::HandshakeOptions handshake,
             std::unique_ptr<net::Listener> listener, UniqueFd waker);
  // Goes on with an attempt; whether it is over.
  bool advance(Attempt& attempt, std::vector<Arrival>& arrivals);
  bool failed(Attempt& attempt, const Status& why, std::vector<Arrival>& arrivals);

  const std::string_view name_;
  const Options options_;
  const net::HandshakeOptions handshake_;
  const UniqueFd waker_;  // An eventfd.

  Mutex mutex_;
  const std::unique_ptr<net::Listener> listener_;  // May be null for the last peer.
  std::vector<Attempt> attempts_ COLLA_GUARDED_BY(mutex_);
  // At peers that are to connect.
  std::vector<std::pair<int, net::Knock>> knocks_ COLLA_GUARDED_BY(mutex_);

  std::vector<pollfd> polled_;  // The sleeper's.
};

}  // namespace colla::transport::tcp
