#include "transport/ucx/transport.h"

#include <utility>

#include "transport/messenger.h"
#include "transport/tcp/backend.h"
#include "transport/tcp/transport.h"
#include "transport/ucx/backend.h"
#include "transport/ucx/devices.h"
#include "transport/ucx/library.h"

namespace colla::transport::ucx {
namespace {

constexpr char kName[] = "ucx";

}  // namespace

Status usable() { return Library::load().status(); }

bool preferred() { return !rdmaDevices().empty() && usable().ok(); }

Result<std::unique_ptr<net::Listener>> listen(const std::string& address, const Options& options) {
  COLLA_TRY_ASSIGN(auto handshake, tcp::handshakeOptions(options, tcp::Security::kTls, kName));
  return net::Listener::open(address, std::move(handshake));
}

Result<std::unique_ptr<Transport>> connect(const Options& options,
                                           std::unique_ptr<net::Listener> listener) {
  COLLA_TRY_ASSIGN(auto handshake, tcp::handshakeOptions(options, tcp::Security::kTls, kName));
  handshake.hello.service = kName;
  Options atDoor = options;
  atDoor.connections = 1;
  atDoor.spin = {.caller = {}, .background = {}};  // The backend spins.
  COLLA_TRY_ASSIGN(
      auto door, tcp::TcpBackend::create(kName, atDoor, std::move(handshake), std::move(listener)));
  COLLA_TRY_ASSIGN(auto backend, UcxBackend::create(options, std::move(door)));
  return std::unique_ptr<Transport>(std::make_unique<Messenger>(options, std::move(backend)));
}

}  // namespace colla::transport::ucx
