// Who a process says it is when a connection opens, and whether two of them may work together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"
#include "transport/net/side.h"
#include "transport/options.h"

namespace colla::transport::net {

inline constexpr std::uint32_t kMagic = 0x4c4c4f43;  // "COLL" on the wire.
// Of everything that Colla's processes say to each other. Magic and version come first in every
// version, so that two versions can tell each other apart.
inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kMaxHello = 64 * 1024;

struct Hello {
  Side side = Side::kConnector;  // Set by the handshake: an echo of our own words is refused.
  std::string service = "peer";  // What is spoken next: "peer" (messages) or "store".
  std::string jobId;
  std::string name;  // For messages: "rank 1 on host b".
  std::uint32_t epoch = 0;
  std::int32_t peer = -1;    // Its number in the membership.
  std::uint32_t stripe = 0;  // Which of the connections of a pair.
  Identity identity;
};

std::vector<std::byte> encodeHello(const Hello& hello);
// Takes bytes from anywhere. kRefused with what is wrong with them.
Result<Hello> parseHello(std::span<const std::byte> bytes);

// Fine when both may be in one job. Otherwise kRefused, with both values: "rank 1 on host b runs
// colla 0.1.0, this process 0.2.0". `self` is what our side is called in the text.
Status compareHellos(const Hello& theirs, const Hello& ours,
                     std::string_view self = "this process");

// Without control characters and cut to `limit`: what strangers say ends up in logs.
std::string printable(std::string_view text, std::size_t limit);

}  // namespace colla::transport::net
