#include "transport/net/socket_stream.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace colla::transport::net {
namespace {

Status lost(int error) {
  return {StatusCode::kPeerLost, fmt::format("the connection broke: {}", std::strerror(error))};
}

}  // namespace

Result<std::size_t> SocketStream::read(std::span<std::byte> out) {
  if (out.empty()) return std::size_t{0};
  while (true) {
    const ssize_t count = recv(fd_.get(), out.data(), out.size(), 0);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count == 0) return {StatusCode::kPeerLost, "the other side closed the connection"};
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return lost(errno);
  }
}

Result<std::size_t> SocketStream::write(std::span<const std::byte> data) {
  if (data.empty()) return std::size_t{0};
  while (true) {
    const ssize_t count = send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return lost(errno);
  }
}

}  // namespace colla::transport::net
