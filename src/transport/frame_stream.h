// Frames over a Stream: a reader that hands out headers and puts bodies where it is told, and a
// writer that copies small frames together and sends large bodies from where they lie.
//
// Neither blocks; both go on where they stopped. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/frame.h"
#include "transport/stream.h"

namespace colla::transport {

class FrameReader {
 public:
  enum class Event { kNothing, kHeader, kBody };

  explicit FrameReader(std::uint32_t epoch) : epoch_(epoch) {}

  // kHeader: frame() is new, call into() or skip() before the next call. kBody: all of its bytes
  // are there (comes for empty bodies as well). kNothing: the stream has no more for now.
  Result<Event> next(Stream& stream);
  const Frame& frame() const { return frame_; }
  // Between the header and the end of the body.
  bool inBody() const { return inBody_; }

  // Where the body goes, from its first byte on. In the middle of a body the caller has brought
  // the arrived() bytes over.
  void into(std::byte* target) { target_ = target; }
  void skip() { target_ = nullptr; }
  std::size_t arrived() const { return arrived_; }

 private:
  Result<std::size_t> fill(Stream& stream);

  const std::uint32_t epoch_;
  Frame frame_;
  bool inBody_ = false;
  std::byte* target_ = nullptr;  // Null: the body is dropped.
  std::size_t arrived_ = 0;      // Bytes of the body.

  // Headers and small bodies come through here, several per read.
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class FrameWriter {
 public:
  // Copies a frame; it goes out with this batch when that has not begun, else with the next.
  void add(const Frame& frame, std::span<const std::byte> body);
  // Only when !busy(). Ends the batch with a frame whose body stays where it is until the batch is
  // out or keepBody() is called.
  void addInPlace(const Frame& frame, const std::byte* body);

  // A batch has begun to go out and is not through.
  bool busy() const { return begun_; }
  bool empty() const { return out(); }
  // Copied bytes, gone out or not.
  std::size_t bytes() const { return batch_.size() + next_.size(); }

  // Writes what the stream takes; whether it took anything. Once the batch is out, the next one
  // may be filled.
  Result<bool> flush(Stream& stream);
  // Copies what is left of the body in place, whose owner wants it back.
  void keepBody();

 private:
  bool out() const { return written_ == batch_.size() && body_.empty(); }

  bool begun_ = false;  // Batch is closed for add().
  std::vector<std::byte> batch_;
  std::size_t written_ = 0;
  std::span<const std::byte> body_;  // After batch_.
  std::vector<std::byte> next_;
};

}  // namespace colla::transport
