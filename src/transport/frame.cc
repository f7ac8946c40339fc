#include "transport/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/status_code.h"

namespace colla::transport {
namespace {

constexpr std::uint32_t kMagic = 0x614c6f43;  // "CoLa"

// The header as it lies on the wire, without holes.
struct Wire {
  std::uint32_t magic;
  std::uint8_t kind;
  std::uint8_t receiving;
  std::uint8_t zero[2];
  std::uint32_t epoch;
  std::uint32_t group;
  std::uint32_t sequence;
  std::uint32_t step;
  Call call;
  std::uint64_t total;
  std::uint64_t offset;
  std::uint32_t length;
  std::uint32_t zeroToo;
};
static_assert(sizeof(Wire) == kFrameBytes && sizeof(Call) == 16);

// What is wrong with the sizes of a frame of this kind; null when nothing is.
const char* wrongSizes(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kData:
      if (frame.length > kEagerLimit) return "a small message above the limit";
      if (frame.total != frame.length || frame.offset != 0) return "a small message in parts";
      return nullptr;
    case FrameKind::kAnnounce:
    case FrameKind::kReady:
      if (frame.total <= kEagerLimit) return "an announcement of a small message";
      return frame.length != 0 || frame.offset != 0 ? "an announcement with data" : nullptr;
    case FrameKind::kPart:
      if (frame.total <= kEagerLimit) return "a part of a small message";
      if (frame.length == 0 || frame.length > kPartLimit) return "a part of a wrong size";
      if (frame.offset > frame.total || frame.length > frame.total - frame.offset) {
        return "a part outside of its message";
      }
      return nullptr;
    case FrameKind::kWhole:
      if (frame.total <= kEagerLimit) return "a small message beside the stream";
      return frame.length != 0 ? "the same bytes twice" : nullptr;
    case FrameKind::kRefuse:
      return frame.length != 0 ? "a refusal with data" : nullptr;
    case FrameKind::kAbort:
      if (frame.length > kAbortLimit || frame.total != frame.length || frame.offset != 0) {
        return "an abort of a wrong size";
      }
      return nullptr;
  }
  return "an unknown kind";
}

}  // namespace

void encode(const Frame& frame, std::span<std::byte, kFrameBytes> out) {
  const Wire wire{kMagic,
                  static_cast<std::uint8_t>(frame.kind),
                  static_cast<std::uint8_t>(frame.receiving),
                  {},
                  frame.epoch,
                  frame.envelope.group,
                  frame.envelope.sequence,
                  frame.envelope.step,
                  frame.envelope.call,
                  frame.total,
                  frame.offset,
                  frame.length,
                  0};
  std::memcpy(out.data(), &wire, sizeof(wire));
}

Result<Frame> decode(std::span<const std::byte, kFrameBytes> header, std::uint32_t epoch) {
  Wire wire;
  std::memcpy(&wire, header.data(), sizeof(wire));
  if (wire.magic != kMagic) return {StatusCode::kRefused, "not a frame of Colla"};
  if (wire.epoch != epoch) {
    return {StatusCode::kRefused,
            fmt::format("a frame of membership epoch {}, this is epoch {}", wire.epoch, epoch)};
  }
  const int mostReceiving = static_cast<FrameKind>(wire.kind) == FrameKind::kRefuse ? 1 : 0;
  if (std::ranges::any_of(wire.zero, [](auto byte) { return byte != 0; }) || wire.zeroToo != 0 ||
      wire.receiving > mostReceiving) {
    return {StatusCode::kRefused, "a frame with unknown fields"};
  }
  const Frame frame{static_cast<FrameKind>(wire.kind),
                    wire.epoch,
                    {wire.group, wire.sequence, wire.step, wire.call},
                    wire.total,
                    wire.offset,
                    wire.length,
                    wire.receiving != 0};
  if (const char* wrong = wrongSizes(frame)) return {StatusCode::kRefused, wrong};
  return frame;
}

std::vector<std::byte> encodeAbort(const Status& why) {
  constexpr std::size_t kText = kAbortLimit - 16;
  ByteWriter writer;
  writer.number(why.code());
  writer.number(static_cast<std::int32_t>(why.peer()));
  writer.text(why.message().substr(0, kText));
  return writer.take();
}

std::optional<Status> decodeAbort(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto code = errorCode(reader.number<std::uint8_t>());
  const auto peer = reader.number<std::int32_t>();
  std::string text = reader.text();
  if (!reader.done() || peer < Status::kNoPeer || !code) return std::nullopt;
  return Status(*code, std::move(text), peer);
}

}  // namespace colla::transport
