// The frames in which the store and its clients talk, from bytes of anybody. The first two bytes
// limit frames and reads.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "rendezvous/frame_channel.h"

namespace {

using colla::Result;

// Says what it was given, a few bytes at a time, with pauses; then it is gone.
class Script final : public colla::transport::Stream {
 public:
  Script(std::span<const std::byte> says, std::size_t most) : says_(says), most_(most) {}
  Result<std::size_t> read(std::span<std::byte> out) override {
    pause_ = !pause_;
    if (pause_) return std::size_t{0};
    if (says_.empty()) return {colla::StatusCode::kPeerLost, "gone"};
    const std::size_t count = std::min({out.size(), most_, says_.size()});
    std::copy_n(says_.begin(), count, out.begin());
    says_ = says_.subspan(count);
    return count;
  }
  Result<std::size_t> write(std::span<const std::byte> data) override { return data.size(); }

 private:
  std::span<const std::byte> says_;
  std::size_t most_;
  bool pause_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t limit = data[0];
  auto rest = std::as_bytes(std::span(data + 2, size - 2));
  colla::rendezvous::FrameChannel channel(std::make_unique<Script>(rest, data[1] % 16 + 1), limit);
  while (true) {
    const auto frame = channel.next();
    // What it has to be, from the definition.
    std::uint32_t length = 0;
    const bool head = rest.size() >= sizeof(length);
    if (head) std::memcpy(&length, rest.data(), sizeof(length));
    const bool whole = head && length <= limit && length <= rest.size() - sizeof(length);
    if (!frame.ok()) {
      if (whole) std::abort();
      const bool refused = frame.status().code() == colla::StatusCode::kRefused;
      if (refused != (head && length > limit)) std::abort();
      return 0;
    }
    if (!frame->has_value()) continue;  // A pause.
    if (!whole) std::abort();
    const auto expected = rest.subspan(sizeof(length), length);
    if (!std::ranges::equal(**frame, expected)) std::abort();
    rest = rest.subspan(sizeof(length) + length);
  }
}
