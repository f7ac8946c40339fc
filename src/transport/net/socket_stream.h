// A Stream straight over a socket, without encryption.
#pragma once

#include "base/unique_fd.h"
#include "transport/net/socket.h"
#include "transport/stream.h"

namespace colla::transport::net {

class SocketStream final : public Stream {
 public:
  // `fd` is connected (or becomes so before the first call) and does not block.
  explicit SocketStream(UniqueFd fd) : fd_(std::move(fd)) {}

  Result<std::size_t> read(std::span<std::byte> out) override;
  Result<std::size_t> write(std::span<const std::byte> data) override;
  bool inFlight() override { return unacknowledged(fd_.get()); }
  int fd() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace colla::transport::net
