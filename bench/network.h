// Where ranks run, and what joins them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "bench/coordinator.h"
#include "colla/status.h"

namespace colla::bench {

enum class Net {
  kShm,   // One host, shared memory wherever a system can use it.
  kLoop,  // One host, TCP through the loopback interface.
  kVeth,  // Two network namespaces that only a pair of virtual Ethernet devices joins.
};
Result<Net> parseNet(std::string_view text);

// Hosts made of network namespaces. Nothing of them has a name, so nothing is left once this object
// and the processes on its hosts are gone, whatever happens. Movable.
class Hosts {
 public:
  // Two, joined by one cable. Needs root, and `ip`.
  static Result<Hosts> pair(Coordinator& coordinator);
  // `count` hosts, each with a link to one switch that carries at most `gigabits` per second in
  // each direction (tc's token bucket filter); 0: as much as it can. kUnsupported, with what is
  // missing, where there is no root, `ip` or `tc`.
  static Result<Hosts> limited(Coordinator& coordinator, int count, double gigabits);

  // The same name on all hosts.
  static constexpr std::string_view kInterface = "eth0";
  static std::string address(int host);
  // An open descriptor of the host's namespace.
  int networkNamespace(int host) const { return all_[static_cast<std::size_t>(host)].get(); }

 private:
  std::vector<UniqueFd> all_;
};

// Makes the devices in /sys those of this process's host, which UCX goes by. For a process that was
// started there; without hosts it does nothing.
Status showOwnDevices();

// Bytes that have passed a host's link since it was made.
struct LinkBytes {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};
// Of the host on which a process runs. kNotFound once that has ended.
Result<LinkBytes> linkBytes(pid_t process);
// What `text`, as of /proc/PID/net/dev, says of a device.
Result<LinkBytes> parseLinkBytes(const std::string& text, std::string_view device);

}  // namespace colla::bench
