// Processes on hosts with RDMA, or wherever UCX is the site's choice.
//
// Peers meet over TLS (as those of `tcp` do) and prove themselves once more over UCX. What UCX
// carries from then on is neither encrypted nor authenticated: see docs/decisions/0025.
#pragma once

#include <memory>
#include <string>

#include "colla/status.h"
#include "transport/net/listener.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::transport::ucx {

// Whether UCX is installed; kInvalidArgument with what to install.
Status usable();
// The network is one for which UCX is worth it: there is an RDMA device that this process can use,
// and UCX.
bool preferred();

// As tcp::listen(): the door is the same.
Result<std::unique_ptr<net::Listener>> listen(const std::string& address, const Options& options);

Result<std::unique_ptr<Transport>> connect(const Options& options,
                                           std::unique_ptr<net::Listener> listener);

}  // namespace colla::transport::ucx
