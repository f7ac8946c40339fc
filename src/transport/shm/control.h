// What two processes of a host tell each other beside their rings: a record over their Unix
// socket, with file descriptors attached.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::transport::shm {

struct Control {
  enum class Kind : std::uint32_t {
    kGreeting = 1,  // From the connector: its bell and the rings. From the acceptor: its bell.
    kRegion = 2,    // A region that the sender has allocated.
    kRelease = 3,   // A region that it has given up.
  };
  Kind kind = Kind::kGreeting;
  std::uint32_t region = 0;
  std::uint64_t bytes = 0;
};

// False when there is no room now. kPeerLost when the other side is gone.
Result<bool> sendControl(int socket, const Control& control, std::vector<int> fds);

struct ReceivedControl {
  Control control;
  std::vector<UniqueFd> fds;
};
// Nothing when there is none now. kPeerLost when the other side is gone.
Result<std::optional<ReceivedControl>> receiveControl(int socket);

}  // namespace colla::transport::shm
