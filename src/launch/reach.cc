#include "launch/reach.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "transport/net/address.h"

namespace colla::launch {
namespace {

namespace net = transport::net;

struct Attempt {
  UniqueFd socket;
  std::string error;
};

Attempt begin(const std::string& text) {
  Attempt attempt;
  const auto address = net::Address::parse(text);
  if (!address.ok()) {
    attempt.error = address.status().message();
    return attempt;
  }
  attempt.socket.reset(socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.socket.valid() ||
      (connect(attempt.socket.get(), address->system(), address->systemSize()) != 0 &&
       errno != EINPROGRESS)) {
    attempt.error = std::strerror(errno);
    attempt.socket.reset();
  }
  return attempt;
}

}  // namespace

Result<Door> openDoor(const std::string& host) {
  COLLA_TRY_ASSIGN(const auto address, net::Address::parse(net::withPort(host, 0)));
  Door door;
  door.socket.reset(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!door.socket.valid() ||
      bind(door.socket.get(), address.system(), address.systemSize()) != 0 ||
      listen(door.socket.get(), SOMAXCONN) != 0) {
    return {StatusCode::kIo, fmt::format("can't listen at {}: {}", host, std::strerror(errno))};
  }
  COLLA_TRY_ASSIGN(const auto own, net::Address::ofLocalEnd(door.socket.get()));
  door.address = own.text();
  return door;
}

std::vector<std::string> tryToReach(const std::vector<std::string>& addresses, Deadline deadline) {
  std::vector<Attempt> attempts;
  for (const std::string& address : addresses) attempts.push_back(begin(address));
  for (;;) {
    std::vector<pollfd> polls;
    for (const Attempt& attempt : attempts) polls.push_back({attempt.socket.get(), POLLOUT, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    bool waiting = false;
    for (const Attempt& attempt : attempts) waiting = waiting || attempt.socket.valid();
    if (!waiting) break;
    if (poll(polls.data(), polls.size(), static_cast<int>(left.count())) == 0 ||
        left.count() == 0) {
      for (Attempt& attempt : attempts) {
        if (attempt.socket.valid()) attempt.error = "no answer";
      }
      break;
    }
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(polls[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) attempts[i].error = std::strerror(error);
      attempts[i].socket.reset();
    }
  }
  std::vector<std::string> errors;
  for (Attempt& attempt : attempts) errors.push_back(std::move(attempt.error));
  return errors;
}

}  // namespace colla::launch
