#include "bench/line_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace colla::bench {
namespace {

Status ioError(std::string_view what, std::string_view path = {}) {
  return {StatusCode::kIo, fmt::format("{} {}: {}", what, path, std::strerror(errno))};
}

Result<sockaddr_un> addressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return {StatusCode::kIo, fmt::format("{} is too long for a socket; set TMPDIR", path)};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace

Result<LineSocket> LineSocket::connect(const std::string& path) {
  COLLA_TRY_ASSIGN(const sockaddr_un address, addressOf(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ioError("connect to", path);
  }
  return LineSocket(std::move(fd));
}

Result<UniqueFd> LineSocket::listen(const std::string& path) {
  constexpr int kBacklog = 1024;
  COLLA_TRY_ASSIGN(const sockaddr_un address, addressOf(path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return ioError("listen at", path);
  }
  return fd;
}

Status LineSocket::writeLine(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::send(fd_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {StatusCode::kPeerLost, std::strerror(errno)};
    sent += static_cast<std::size_t>(count);
  }
  return {};
}

Status LineSocket::read() {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(fd_.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return {};
  if (count <= 0) return {StatusCode::kPeerLost, "the connection has ended"};
  pending_.append(buffer.data(), static_cast<std::size_t>(count));
  return {};
}

std::optional<std::string> LineSocket::nextLine() {
  const std::size_t end = pending_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

Result<std::string> LineSocket::readLine() {
  while (true) {
    if (auto line = nextLine()) return *std::move(line);
    COLLA_TRY(read());
  }
}

}  // namespace colla::bench
