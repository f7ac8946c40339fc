// Which end of a connection we are, and what a conversation that must not block needs next.
#pragma once

#include <cstdint>

namespace colla::transport::net {

enum class Side : std::uint8_t { kConnector = 1, kAcceptor = 2 };

constexpr Side other(Side side) {
  return side == Side::kConnector ? Side::kAcceptor : Side::kConnector;
}

// Call again when the descriptor is readable or writable; or it is over.
enum class Step { kWantRead, kWantWrite, kDone };

}  // namespace colla::transport::net
