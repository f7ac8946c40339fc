// Which of this machine's network devices UCX is to use.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace colla::transport::ucx {

// The ports of RDMA devices (InfiniBand, RoCE) that this process can use, as UCX calls them:
// "mlx5_0:1". The port is active, and this user may open the device. `root` is for tests.
std::vector<std::string> rdmaDevices(const std::filesystem::path& root = "/");

// Those and, unless `rdmaAlone`, the interface that `address` ("10.0.0.1:4000") belongs to: by the
// others, which peers may not reach, UCX would try to connect as well. Empty, which means all, if
// that is not known.
std::string devicesFor(const std::string& address, bool rdmaAlone);

}  // namespace colla::transport::ucx
