// Frames over a Stream, in both directions, without blocking: a length (4 bytes) and that many
// bytes. A frame over the limit ends the connection before anything is allocated for it.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "colla/status.h"
#include "transport/stream.h"

namespace colla::rendezvous {

class FrameChannel {
 public:
  using Bytes = std::vector<std::byte>;

  FrameChannel(std::unique_ptr<transport::Stream> stream, std::size_t maxFrame)
      : stream_(std::move(stream)), maxFrame_(maxFrame) {}

  int fd() const { return stream_->fd(); }

  // To be sent by flush(): one frame of `head` and `body` (which others may share; may be null).
  void queue(Bytes head, std::shared_ptr<const Bytes> body = nullptr);
  // Sends what there is room for.
  Status flush();
  // Bytes that wait to be sent.
  std::size_t queued() const { return queued_; }

  // The next frame; nothing when it is not complete yet. Call until nothing before polling.
  Result<std::optional<Bytes>> next();

 private:
  using Piece = std::shared_ptr<const Bytes>;
  void append(Piece piece);

  std::unique_ptr<transport::Stream> stream_;
  const std::size_t maxFrame_;
  std::deque<Piece> out_;
  std::size_t outDone_ = 0;  // Of out_.front().
  std::size_t queued_ = 0;
  Bytes in_;
  std::size_t inDone_ = 0;
  bool header_ = true;  // in_ is for the length.
};

}  // namespace colla::rendezvous
