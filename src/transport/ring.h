// A ring of bytes in memory that two threads or processes share: one writes, one reads, neither
// blocks and neither locks.
//
// The memory may belong to a process that has gone wrong: each side keeps its own position to
// itself and checks the other's, so no value found in the memory leads outside of it.
//
// Thread safety: one RingWriter and one RingReader per ring; readable() and writable() may be
// called from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/check.h"

namespace colla::transport {

// Positions count all bytes ever; zero is a valid start.
struct RingHeader {
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint64_t> written;
};
static_assert(sizeof(RingHeader) == 128 && std::atomic<std::uint64_t>::is_always_lock_free);

// Where a ring lies: a view, to make one reader and one writer of.
class Ring {
 public:
  // `memory` is zeroed, aligned to 64 bytes, and bytesFor() some power of two.
  explicit Ring(std::span<std::byte> memory)
      : header_(reinterpret_cast<RingHeader*>(memory.data())),
        data_(memory.data() + sizeof(RingHeader)),
        capacity_(memory.size() - sizeof(RingHeader)) {
    COLLA_CHECK(memory.size() > sizeof(RingHeader) && std::has_single_bit(capacity_));
  }
  static constexpr std::size_t bytesFor(std::size_t capacity) {
    return sizeof(RingHeader) + capacity;
  }
  std::size_t capacity() const { return capacity_; }

  // There is something to read, or to write to; a hint when the other side is at work.
  bool readable() const { return load(header_->written) != load(header_->read); }
  bool writable() const { return load(header_->written) - load(header_->read) != capacity_; }

 private:
  friend class RingReader;
  friend class RingWriter;
  static std::uint64_t load(const std::atomic<std::uint64_t>& position) {
    return position.load(std::memory_order_acquire);
  }

  RingHeader* header_;
  std::byte* data_;
  std::size_t capacity_;
};

class RingReader {
 public:
  explicit RingReader(Ring ring) : ring_(ring) {}

  // How many bytes were read into `out`; nothing when the writer's position makes no sense.
  std::optional<std::size_t> read(std::span<std::byte> out) {
    const std::uint64_t used = Ring::load(ring_.header_->written) - position_;
    if (used > ring_.capacity_) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(used, out.size());
    if (count == 0) return 0;
    const std::size_t at = position_ & (ring_.capacity_ - 1);
    const std::size_t first = std::min(count, ring_.capacity_ - at);
    std::memcpy(out.data(), ring_.data_ + at, first);
    std::memcpy(out.data() + first, ring_.data_, count - first);
    position_ += count;
    ring_.header_->read.store(position_, std::memory_order_release);
    return count;
  }

 private:
  Ring ring_;
  std::uint64_t position_ = 0;
};

class RingWriter {
 public:
  explicit RingWriter(Ring ring) : ring_(ring) {}

  // How many bytes of `data` were taken; nothing when the reader's position makes no sense.
  std::optional<std::size_t> write(std::span<const std::byte> data) {
    const std::uint64_t used = position_ - Ring::load(ring_.header_->read);
    if (used > ring_.capacity_) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(ring_.capacity_ - used, data.size());
    if (count == 0) return 0;
    const std::size_t at = position_ & (ring_.capacity_ - 1);
    const std::size_t first = std::min(count, ring_.capacity_ - at);
    std::memcpy(ring_.data_ + at, data.data(), first);
    std::memcpy(ring_.data_, data.data() + first, count - first);
    position_ += count;
    ring_.header_->written.store(position_, std::memory_order_release);
    return count;
  }

 private:
  Ring ring_;
  std::uint64_t position_ = 0;
};

}  // namespace colla::transport
