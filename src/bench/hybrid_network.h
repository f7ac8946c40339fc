// Hosts with links of limited speed to one switch, made of network namespaces: one for each host
// and one for the switch, joined by pairs of virtual Ethernet devices.
//
// Nothing of it has a name, so nothing is left once this object and the processes on its hosts are
// gone, whatever happens. Movable.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "bench/coordinator.h"
#include "colla/status.h"

namespace colla::bench {

// Bytes that have passed a host's link since it was made.
struct LinkBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

class LimitedHosts {
 public:
  // Both directions of each link carry `gigabits` per second at most (tc's token bucket filter).
  // kUnsupported with what is missing where there is no root, `ip` or `tc`.
  static Result<LimitedHosts> create(Coordinator& coordinator, int hosts, double gigabits);

  // An open descriptor of the host's namespace, and its address.
  int networkNamespace(int host) const { return hosts_[static_cast<std::size_t>(host)].get(); }
  static std::string address(int host);

  // Of the link of the host on which a process runs. kNotFound once that has ended.
  static Result<LinkBytes> linkBytes(pid_t process);

 private:
  std::vector<UniqueFd> hosts_;
};

// What `text`, as of /proc/PID/net/dev, says of a device.
Result<LinkBytes> parseLinkBytes(const std::string& text, const std::string& device);

}  // namespace colla::bench
