// Processes on hosts with an ordinary network as the peers of a job: TCP, encrypted with TLS 1.3
// by a key made from the job's secret, or plain where the network is trusted.
//
// A process listens first, so that its address can be told to the others, and connects once it
// knows theirs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "colla/status.h"
#include "transport/net/listener.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::transport::tcp {

enum class Security { kTls, kPlain };

// What this process says of itself and asks of others. kRefused when the secret that the transport
// `name` needs is missing, kInvalidArgument when it is not one of options.peers, once there are
// any.
Result<net::HandshakeOptions> handshakeOptions(const Options& options, Security security,
                                               std::string_view name);

// Opens a listener ("10.0.0.1:0" picks a port): listener->address() is what the others need. Of
// `options` the secret and the job's id count. kRefused when the secret is missing and needed.
Result<std::unique_ptr<net::Listener>> listen(const std::string& address, const Options& options,
                                              Security security);

// The transport, with options.peers[i].address from their listeners. Waits for nobody. The last
// peer, to which nobody connects, may have no listener.
Result<std::unique_ptr<Transport>> connect(const Options& options,
                                           std::unique_ptr<net::Listener> listener,
                                           Security security);

}  // namespace colla::transport::tcp
