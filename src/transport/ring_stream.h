// A Stream over two rings in memory that both peers see.
#pragma once

#include <atomic>
#include <memory>

#include "transport/doorbell.h"
#include "transport/ring.h"
#include "transport/stream.h"

namespace colla::transport {

class RingStream final : public Stream {
 public:
  struct Place {
    Ring in;
    Ring out;
    // Rung after this side has moved bytes, where the peer may sleep; null: nobody sleeps.
    Doorbell* theirs = nullptr;
    // Turns true when the peer is gone: what it wrote before can still be read. Null: never.
    const std::atomic<bool>* gone = nullptr;
    // Keeps all of the above alive.
    std::shared_ptr<void> memory;
  };
  explicit RingStream(Place place)
      : place_(std::move(place)), reader_(place_.in), writer_(place_.out) {}

  Result<std::size_t> read(std::span<std::byte> out) override;
  Result<std::size_t> write(std::span<const std::byte> data) override;

  // There are bytes for a reader, room for a writer, or no peer any more. From any thread.
  bool ready(bool read, bool write) const {
    return (read && place_.in.readable()) || (write && place_.out.writable()) || gone();
  }

 private:
  bool gone() const {
    return place_.gone != nullptr && place_.gone->load(std::memory_order_acquire);
  }
  void ring() {
    if (place_.theirs != nullptr) place_.theirs->ring();
  }

  Place place_;
  RingReader reader_;
  RingWriter writer_;
};

// A stream from this process to itself: what is written to it comes out of it.
std::unique_ptr<Stream> makeLoopStream(std::size_t capacity);

// Zeroed memory of this process, aligned to a page and rounded up to one; null when there is none.
std::shared_ptr<std::byte> allocatePages(std::size_t bytes);

}  // namespace colla::transport
