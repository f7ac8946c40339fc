#include "transport/frame_stream.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace colla::transport {
namespace {

// Large enough for many small frames, small against a part: what is read ahead is copied.
constexpr std::size_t kReadAhead = 16 << 10;
// A batch that had to keep a body is not kept around.
constexpr std::size_t kKeptCapacity = 4 * kEagerLimit;

void append(std::vector<std::byte>& bytes, const Frame& frame, std::span<const std::byte> body) {
  const std::size_t at = bytes.size();
  bytes.resize(at + kFrameBytes + body.size());
  encode(frame, std::span(bytes).subspan(at).first<kFrameBytes>());
  if (!body.empty()) std::memcpy(bytes.data() + at + kFrameBytes, body.data(), body.size());
}

}  // namespace

Result<std::size_t> FrameReader::fill(Stream& stream) {
  if (buffer_.empty()) buffer_.resize(kReadAhead);
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  COLLA_TRY_ASSIGN(const std::size_t count, stream.read(std::span(buffer_).subspan(end_)));
  end_ += count;
  return count;
}

Result<FrameReader::Event> FrameReader::next(Stream& stream) {
  while (!inBody_) {
    if (end_ - begin_ >= kFrameBytes) {
      const auto header = std::span<const std::byte>(buffer_).subspan(begin_).first<kFrameBytes>();
      COLLA_TRY_ASSIGN(frame_, decode(header, epoch_));
      begin_ += kFrameBytes;
      inBody_ = true;
      target_ = nullptr;
      arrived_ = 0;
      return Event::kHeader;
    }
    COLLA_TRY_ASSIGN(const std::size_t count, fill(stream));
    if (count == 0) return Event::kNothing;
  }

  while (arrived_ < frame_.length) {
    const std::size_t missing = frame_.length - arrived_;
    if (begin_ < end_) {
      const std::size_t count = std::min(missing, end_ - begin_);
      if (target_ != nullptr) std::memcpy(target_ + arrived_, buffer_.data() + begin_, count);
      begin_ += count;
      arrived_ += count;
      continue;
    }
    const auto out = target_ != nullptr
                         ? std::span(target_ + arrived_, missing)
                         : std::span(buffer_).first(std::min(missing, buffer_.size()));
    COLLA_TRY_ASSIGN(const std::size_t count, stream.read(out));
    if (count == 0) return Event::kNothing;
    arrived_ += count;
  }
  inBody_ = false;
  return Event::kBody;
}

void FrameWriter::add(const Frame& frame, std::span<const std::byte> body) {
  append(begun_ ? next_ : batch_, frame, body);
}

void FrameWriter::addInPlace(const Frame& frame, const std::byte* body) {
  COLLA_DCHECK(!begun_ && body_.empty());
  append(batch_, frame, {});
  body_ = {body, frame.length};
  begun_ = true;
}

Result<bool> FrameWriter::flush(Stream& stream) {
  bool progress = false;
  begun_ = !out();
  while (!out()) {
    const auto head = std::span<const std::byte>(batch_).subspan(written_);
    COLLA_TRY_ASSIGN(const std::size_t count, stream.write(head.empty() ? body_ : head));
    if (count == 0) return progress;
    progress = true;
    if (head.empty()) {
      body_ = body_.subspan(count);
    } else {
      written_ += count;
    }
  }
  batch_.clear();
  if (batch_.capacity() > kKeptCapacity) batch_.shrink_to_fit();
  written_ = 0;
  begun_ = false;
  batch_.swap(next_);
  return progress;
}

void FrameWriter::keepBody() {
  batch_.insert(batch_.end(), body_.begin(), body_.end());
  body_ = {};
}

}  // namespace colla::transport
