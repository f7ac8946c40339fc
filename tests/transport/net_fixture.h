// A Listener and its clients on one thread: pump() drives all of them, so that every test decides
// itself what happens when.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/net/handshake.h"
#include "transport/net/listener.h"
#include "transport/net/socket.h"

namespace colla::transport::net {

enum class Mode { kUnix, kUnixSecret, kPlain, kTls };

inline std::string modeName(const ::testing::TestParamInfo<Mode>& info) {
  switch (info.param) {
    case Mode::kUnix:
      return "Unix";
    case Mode::kUnixSecret:
      return "UnixSecret";
    case Mode::kPlain:
      return "Plain";
    case Mode::kTls:
      return "Tls";
  }
  return "";
}

inline const std::string kSecret = "0123456789abcdef0123456789abcdef";
inline const std::string kOtherSecret = "another secret, of the same size";

inline HandshakeOptions optionsOf(Mode mode, int peer, const std::string& name,
                                  const std::string& secret = kSecret) {
  HandshakeOptions options;
  options.hello.jobId = "job 7";
  options.hello.name = name;
  options.hello.peer = peer;
  options.hello.identity = {"0.1.0", "2.13.0", "avx2", "slices=4\nthreads=1\n"};
  if (mode != Mode::kUnix) options.secret = secret;
  if (mode == Mode::kTls) {
    auto tls = TlsContext::create(secret, options.hello.jobId);
    EXPECT_TRUE(tls.ok()) << tls.status();
    options.tls = *tls;
  }
  return options;
}

inline std::string listenAddress(Mode mode) {
  if (mode == Mode::kPlain || mode == Mode::kTls) return "127.0.0.1:0";
  static std::atomic<int> count = 0;
  return "unix:@colla-net-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

// A client's side of a handshake, and what became of it.
struct Client {
  explicit Client(Result<Handshake> started) {
    if (started.ok()) {
      handshake.emplace(*std::move(started));
    } else {
      outcome = started.status();
    }
  }
  bool settled() const { return outcome.has_value(); }
  bool ok() const { return settled() && outcome->ok(); }
  void step() {
    if (settled()) return;
    const auto step = handshake->step();
    if (!step.ok()) {
      outcome = step.status();
      failure = handshake->failure();
      handshake.reset();
    } else if (*step == Step::kDone) {
      outcome = Status();
      stream = handshake->takeStream();
      theirs = handshake->theirs();
    }
  }

  std::optional<Handshake> handshake;
  std::optional<Status> outcome;
  Handshake::Failure failure = Handshake::Failure::kNone;
  std::unique_ptr<Stream> stream;
  Hello theirs;
};

class NetTest : public ::testing::Test {
 protected:
  using Condition = std::function<bool()>;
  static constexpr std::chrono::seconds kLimit{20};

  void listen(const std::string& address, HandshakeOptions options) {
    auto opened = Listener::open(address, std::move(options));
    ASSERT_TRUE(opened.ok()) << opened.status();
    listener_ = *std::move(opened);
  }
  void listen(Mode mode) { listen(listenAddress(mode), optionsOf(mode, 0, "rank 0 on host a")); }

  Client& connect(const HandshakeOptions& options) {
    clients_.push_back(std::make_unique<Client>(Handshake::connect(listener_->address(), options)));
    return *clients_.back();
  }
  // A good one, which must come through.
  void expectOpenFor(Mode mode) {
    const std::size_t before = accepted_.size();
    const Client& client = connect(optionsOf(mode, 1, "rank 1 on host b"));
    EXPECT_TRUE(pump([&] { return client.settled() && accepted_.size() > before; }))
        << (client.settled() ? toString(*client.outcome) : "not settled");
    EXPECT_TRUE(client.ok());
  }

  // Says `bytes` to the listener without any handshake. The end stays open for reading.
  UniqueFd say(std::span<const std::byte> bytes, bool close = false) {
    const auto address = Address::parse(listener_->address());
    UniqueFd fd = *startConnect(*address);
    EXPECT_TRUE(waitFor(fd.get(), POLLOUT, Deadline::after(kLimit)).ok());
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    if (close) shutdown(fd.get(), SHUT_WR);
    return fd;
  }
  // Whether the other end was closed; what it says before is thrown away.
  static bool closed(int fd) {
    char waste[4096];
    while (true) {
      const ssize_t count = recv(fd, waste, sizeof(waste), MSG_DONTWAIT);
      if (count > 0) continue;
      return count == 0 || errno != EAGAIN;
    }
  }

  // Drives everything until `done` or the limit; whether it is done.
  bool pump(const Condition& done) {
    const Deadline deadline = Deadline::after(kLimit);
    while (!done()) {
      if (deadline.expired()) return false;
      for (auto& connection : listener_->step()) accepted_.push_back(std::move(connection));
      for (const auto& client : clients_) client->step();
      if (beside_) beside_();
      if (done()) return true;
      pollfd entry{listener_->fd(), POLLIN, 0};
      poll(&entry, 1, 1);
    }
    return true;
  }

  std::unique_ptr<Listener> listener_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Connection> accepted_;
  std::function<void()> beside_;  // Called in every round of pump().
};

class NetModeTest : public NetTest, public ::testing::WithParamInterface<Mode> {};

}  // namespace colla::transport::net
