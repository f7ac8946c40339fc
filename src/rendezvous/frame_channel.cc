#include "rendezvous/frame_channel.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace colla::rendezvous {

void FrameChannel::queue(Bytes head, std::shared_ptr<const Bytes> body) {
  ByteWriter writer;
  const std::size_t size = head.size() + (body == nullptr ? 0 : body->size());
  writer.number(static_cast<std::uint32_t>(size));
  writer.raw(head);
  append(std::make_shared<const Bytes>(writer.take()));
  if (body != nullptr && !body->empty()) append(std::move(body));
}

void FrameChannel::append(Piece piece) {
  queued_ += piece->size();
  out_.push_back(std::move(piece));
}

Status FrameChannel::flush() {
  while (!out_.empty()) {
    const auto rest = std::span<const std::byte>(*out_.front()).subspan(outDone_);
    COLLA_TRY_ASSIGN(const std::size_t count, stream_->write(rest));
    outDone_ += count;
    queued_ -= count;
    if (count < rest.size()) return {};
    out_.pop_front();
    outDone_ = 0;
  }
  return {};
}

Result<std::optional<FrameChannel::Bytes>> FrameChannel::next() {
  while (true) {
    if (header_) in_.resize(sizeof(std::uint32_t));
    while (inDone_ < in_.size()) {
      COLLA_TRY_ASSIGN(const std::size_t count, stream_->read(std::span(in_).subspan(inDone_)));
      if (count == 0) return std::optional<Bytes>();
      inDone_ += count;
    }
    inDone_ = 0;
    header_ = !header_;
    if (header_) return std::optional<Bytes>(std::exchange(in_, {}));

    const std::size_t size = ByteReader(in_).number<std::uint32_t>();
    if (size > maxFrame_) {
      return {StatusCode::kRefused,
              fmt::format("a frame of {} bytes is too long; the limit is {}", size, maxFrame_)};
    }
    in_.resize(size);
  }
}

}  // namespace colla::rendezvous
