#include "transport/tcp/transport.h"

#include <fmt/format.h>

#include <utility>

#include "transport/messenger.h"
#include "transport/tcp/backend.h"

namespace colla::transport::tcp {
namespace {

// How long a newcomer may take. It moves only while both sides wait for something, and the side
// that connects tries again.
constexpr std::chrono::seconds kAcceptLimit{60};

const char* nameOf(Security security) { return security == Security::kTls ? "tcp" : "tcp-plain"; }

}  // namespace

Result<net::HandshakeOptions> handshakeOptions(const Options& options, Security security,
                                               std::string_view name) {
  net::HandshakeOptions handshake;
  handshake.hello.jobId = options.jobId;
  handshake.hello.epoch = options.epoch;
  handshake.hello.identity = options.identity;
  if (!options.peers.empty()) {
    if (options.self < 0 || static_cast<std::size_t>(options.self) >= options.peers.size()) {
      return {StatusCode::kInvalidArgument,
              fmt::format("there is no peer {} of {}", options.self, options.peers.size())};
    }
    handshake.hello.peer = options.self;
    handshake.hello.name = options.peers[static_cast<std::size_t>(options.self)].name;
  }
  handshake.secret = options.secret;
  handshake.timeout = kAcceptLimit;
  if (options.secret.empty()) {
    return {StatusCode::kRefused,
            fmt::format("the transport {} needs the job's secret: use `colla run` or set "
                        "COLLA_SECRET_FILE",
                        name)};
  }
  if (security == Security::kPlain) return handshake;
  COLLA_TRY_ASSIGN(handshake.tls, net::TlsContext::create(options.secret, options.jobId));
  return handshake;
}

Result<std::unique_ptr<net::Listener>> listen(const std::string& address, const Options& options,
                                              Security security) {
  COLLA_TRY_ASSIGN(auto handshake, handshakeOptions(options, security, nameOf(security)));
  return net::Listener::open(address, std::move(handshake));
}

Result<std::unique_ptr<Transport>> connect(const Options& options,
                                           std::unique_ptr<net::Listener> listener,
                                           Security security) {
  COLLA_TRY_ASSIGN(auto handshake, handshakeOptions(options, security, nameOf(security)));
  COLLA_TRY_ASSIGN(auto backend, TcpBackend::create(nameOf(security), options, std::move(handshake),
                                                    std::move(listener)));
  return std::unique_ptr<Transport>(std::make_unique<Messenger>(options, std::move(backend)));
}

}  // namespace colla::transport::tcp
