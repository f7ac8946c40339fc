#include "transport/shm/control.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace colla::transport::shm {
namespace {

constexpr std::size_t kMostFds = 2;
using Ancillary = char[CMSG_SPACE(kMostFds * sizeof(int))];

Status lost() { return {StatusCode::kPeerLost, "connection closed"}; }

}  // namespace

Result<bool> sendControl(int socket, const Control& control, std::vector<int> fds) {
  COLLA_CHECK(fds.size() <= kMostFds);
  iovec part{const_cast<Control*>(&control), sizeof(control)};
  alignas(cmsghdr) Ancillary ancillary = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = ancillary;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  while (true) {
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == sizeof(control)) return true;
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS)) {
      return false;
    }
    return lost();  // A record this small is sent whole or not at all.
  }
}

Result<std::optional<ReceivedControl>> receiveControl(int socket) {
  ReceivedControl received;
  iovec part{&received.control, sizeof(received.control)};
  alignas(cmsghdr) Ancillary ancillary = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof(ancillary);
  ssize_t count = -1;
  do {
    count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return std::optional<ReceivedControl>();

  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t fds = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received.fds.emplace_back(fd);
    }
  }
  if (count != sizeof(Control)) return lost();
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return {StatusCode::kNoMemory,
            "this process has no file descriptors left for its peers' memory (raise `ulimit -n`)"};
  }
  return std::optional(std::move(received));
}

}  // namespace colla::transport::shm
