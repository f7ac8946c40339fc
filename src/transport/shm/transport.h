// The way into the backend: listen, tell the others where, connect.
#pragma once

#include <memory>

#include "colla/status.h"
#include "transport/net/listener.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::transport::shm {

// What this process says of itself when it is connected to, or connects.
net::HandshakeOptions handshakeOf(const Options& options);

// Where the other processes of this host will find this one: options.peers may still be empty.
Result<std::unique_ptr<net::Listener>> listen(const Options& options);

// options.peers[i].address is listen()'s address in process i, or empty on another host.
Result<std::unique_ptr<Transport>> connect(const Options& options,
                                           std::unique_ptr<net::Listener> listener);

}  // namespace colla::transport::shm
