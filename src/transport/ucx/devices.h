// Which of this machine's network devices UCX is to use.
#pragma once

#include <string>
#include <vector>

namespace colla::transport::ucx {

// The RDMA devices (InfiniBand, RoCE) of this machine, as UCX calls them: "mlx5_0:1".
std::vector<std::string> rdmaDevices();

// Those, and the interface that `address` ("10.0.0.1:4000") belongs to: by the others, which peers
// may not reach, UCX would try to connect as well. Empty, which means all, if that is not known.
std::string devicesFor(const std::string& address);

}  // namespace colla::transport::ucx
