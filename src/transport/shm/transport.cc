#include "transport/shm/transport.h"

#include <fmt/format.h>
#include <sys/random.h>

#include "transport/messenger.h"
#include "transport/shm/backend.h"

namespace colla::transport::shm {
namespace {

// It moves only while both sides wait for something: the deadline of those who wait comes first.
constexpr std::chrono::hours kHandshakeLimit{24};

}  // namespace

net::HandshakeOptions handshakeOf(const Options& options) {
  net::Hello hello;
  hello.service = "shm";
  hello.jobId = options.jobId;
  hello.epoch = options.epoch;
  hello.peer = options.self;
  hello.identity = options.identity;
  const auto self = static_cast<std::size_t>(options.self);
  hello.name = self < options.peers.size() ? options.peers[self].name : "a peer";
  return {.hello = hello,
          .secret = options.secret,
          .tls = nullptr,
          .check = nullptr,
          .timeout = kHandshakeLimit};
}

Result<std::unique_ptr<net::Listener>> listen(const Options& options) {
  std::uint64_t unique = 0;
  if (getrandom(&unique, sizeof(unique), 0) != sizeof(unique)) {
    return {StatusCode::kIo, "the system has no random numbers"};
  }
  return net::Listener::open(fmt::format("unix:@colla-{:016x}", unique), handshakeOf(options));
}

Result<std::unique_ptr<Transport>> connect(const Options& options,
                                           std::unique_ptr<net::Listener> listener) {
  listener->expect(handshakeOf(options));
  COLLA_TRY_ASSIGN(auto backend, ShmBackend::create(options, std::move(listener)));
  return std::unique_ptr<Transport>(std::make_unique<Messenger>(options, std::move(backend)));
}

}  // namespace colla::transport::shm
