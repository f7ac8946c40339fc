#include "transport/net/socket.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace colla::transport::net {
namespace {

void setNumber(int fd, int level, int option, int value) {
  // These only tune: a kernel without one of them works as well, if less well.
  (void)setsockopt(fd, level, option, &value, sizeof(value));
}

// Buffer sizes are left to the kernel: a fixed size switches its own tuning off, and is cut to
// net.core.wmem_max, which is below what the tuning reaches.
void tune(int fd, int family) {
  if (family == AF_UNIX) return;
  setNumber(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that vanished without a word is noticed after 10 + 3 * 5 s, also while we only wait,
  // and after 25 s where bytes of ours stay unacknowledged.
  setNumber(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setNumber(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  setNumber(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  setNumber(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  setNumber(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 25'000);
}

Status failure(StatusCode code, std::string_view what, const Address& address, int error) {
  return {code, fmt::format("{} {}: {}", what, address.text(), std::strerror(error))};
}

Result<UniqueFd> open(const Address& address) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return failure(StatusCode::kIo, "no socket for", address, errno);
  return fd;
}

}  // namespace

Result<UniqueFd> listenOn(const Address& address) {
  if (address.isWildcard()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} would listen on every interface; name the one in use (--interface)",
                        address.text())};
  }
  COLLA_TRY_ASSIGN(UniqueFd fd, open(address));
  if (!address.isUnix()) setNumber(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(fd.get(), address.system(), address.systemSize()) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE && address.port() == 0) {
      return {StatusCode::kIo,
              fmt::format("no free port on {}: all that net.ipv4.ip_local_port_range allows are in "
                          "use",
                          address.host())};
    }
    return failure(StatusCode::kIo, "cannot listen on", address, errno);
  }
  return fd;
}

Result<UniqueFd> acceptOn(int listening) {
  while (true) {
    UniqueFd fd(accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      int family = AF_UNSPEC;
      socklen_t size = sizeof(family);
      (void)getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
      tune(fd.get(), family);
      return fd;
    }
    switch (errno) {
      case EAGAIN:
        return UniqueFd();
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return {StatusCode::kNoMemory, fmt::format("accept: {}", std::strerror(errno))};
      case EBADF:
      case EINVAL:
      case ENOTSOCK:
        return {StatusCode::kInternal, fmt::format("accept: {}", std::strerror(errno))};
      default:
        continue;  // EINTR, or a connection that failed while it was queued: take the next.
    }
  }
}

Result<UniqueFd> startConnect(const Address& address) {
  COLLA_TRY_ASSIGN(UniqueFd fd, open(address));
  tune(fd.get(), address.family());
  int outcome = 0;
  do {
    outcome = connect(fd.get(), address.system(), address.systemSize());
  } while (outcome != 0 && errno == EINTR);
  if (outcome == 0 || errno == EINPROGRESS) return fd;
  if (errno == EAGAIN) {
    return failure(StatusCode::kTimeout, "too many are connecting to", address, errno);
  }
  return failure(StatusCode::kPeerLost, "cannot connect to", address, errno);
}

Status finishConnect(int fd, const Address& address) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0) return {};
  return failure(StatusCode::kPeerLost, "cannot connect to", address, error);
}

Status checkPeerUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return {StatusCode::kRefused,
            fmt::format("the other end's user is unknown: {}", std::strerror(errno))};
  }
  if (peer.uid == geteuid()) return {};
  return {StatusCode::kRefused,
          fmt::format("process {} at the other end belongs to user {}, this process to user {}",
                      peer.pid, peer.uid, geteuid())};
}

bool unacknowledged(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

Status waitFor(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd entry{fd, events, 0};
    // Rounded up: a wait that ends too early would be repeated without sleeping.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    const int count = poll(&entry, 1, static_cast<int>(left.count()));
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) {
      return {StatusCode::kIo, fmt::format("poll: {}", std::strerror(errno))};
    }
    if (deadline.expired()) return {StatusCode::kTimeout, "the deadline passed"};
  }
}

}  // namespace colla::transport::net
