// What crosses a connection between two peers: a fixed header, then `length` bytes.
//
// A small message is one kData frame, sent at once. A large one moves when its receiver has a
// place for it: the receiver says kReady when it posts the receive, then the sender sends kPart
// frames, each with its place in the message, over all connections of the pair; or one kWhole frame
// where the backend moves the bytes by itself (bodies.h). A sender that has no kReady yet says
// kAnnounce, so that a receiver which expects something else finds out.
// kRefuse tells the other side that a message did not fit what this side has called; kAbort that
// a group is broken.
//
// Everything here is a pure function on bytes; nothing is allocated for what a header claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "colla/status.h"
#include "transport/transport.h"

namespace colla::transport {

enum class FrameKind : std::uint8_t {
  kData = 1,
  kAnnounce = 2,
  kReady = 3,
  kPart = 4,
  kRefuse = 5,
  kAbort = 6,
  kWhole = 7,
};

struct Frame {
  FrameKind kind = FrameKind::kData;
  std::uint32_t epoch = 0;
  Envelope envelope;        // kAbort: only its group counts.
  std::uint64_t total = 0;  // Bytes of the whole message, as this side knows it.
  // kPart: where its bytes belong. kRefuse: `total` of what is refused. kWhole: the body's number.
  std::uint64_t offset = 0;
  std::uint32_t length = 0;  // Bytes that follow the header.
  bool receiving = false;    // kRefuse: the side that refuses receives the message.
};

inline constexpr std::size_t kFrameBytes = 64;
inline constexpr std::size_t kEagerLimit = 64 << 10;  // Above it a message waits for kReady.
inline constexpr std::size_t kPartLimit = 1 << 20;
inline constexpr std::size_t kAbortLimit = 1 << 10;

void encode(const Frame& frame, std::span<std::byte, kFrameBytes> out);

// A frame that keeps every rule above and belongs to `epoch`, or kRefused with what is wrong.
Result<Frame> decode(std::span<const std::byte, kFrameBytes> header, std::uint32_t epoch);

// What a kAbort carries: code, the peer to blame, and text, cut to fit kAbortLimit.
std::vector<std::byte> encodeAbort(const Status& why);
// Nothing when the bytes are not an error's.
std::optional<Status> decodeAbort(std::span<const std::byte> bytes);

}  // namespace colla::transport
