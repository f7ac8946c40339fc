#include "transport/ring_stream.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace colla::transport {
namespace {

constexpr std::size_t kPage = 4096;

Status lost(const char* how) { return {StatusCode::kPeerLost, how}; }

}  // namespace

Result<std::size_t> RingStream::read(std::span<std::byte> out) {
  // Before the ring: nothing is written after the peer has gone.
  const bool wasGone = gone();
  const auto count = reader_.read(out);
  if (!count) return lost("its memory is corrupt");
  if (*count > 0) {
    ring();
  } else if (wasGone && !out.empty()) {
    return lost("connection closed");
  }
  return *count;
}

Result<std::size_t> RingStream::write(std::span<const std::byte> data) {
  if (gone()) return lost("connection closed");
  const auto count = writer_.write(data);
  if (!count) return lost("its memory is corrupt");
  if (*count > 0) ring();
  return *count;
}

std::unique_ptr<Stream> makeLoopStream(std::size_t capacity) {
  auto memory = allocatePages(Ring::bytesFor(capacity));
  const Ring ring(std::span(memory.get(), Ring::bytesFor(capacity)));
  return std::make_unique<RingStream>(RingStream::Place{.in = ring, .out = ring, .memory = memory});
}

std::shared_ptr<std::byte> allocatePages(std::size_t bytes) {
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  if (rounded < bytes) return nullptr;
  void* const memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(memory), [rounded](void* begin) { munmap(begin, rounded); }};
}

}  // namespace colla::transport
