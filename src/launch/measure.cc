#include "launch/measure.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/unique_fd.h"
#include "transport/net/address.h"

namespace colla::launch {
namespace {

constexpr int kRoundTrips = 50;
constexpr auto kStreamFor = std::chrono::milliseconds(300);
constexpr char kPing = 'p';  // Is answered.
constexpr char kLast = 'l';  // The end of a stream of kFill; is answered.
constexpr char kFill = 'f';

// Until `fd` is ready; false at the deadline.
bool awaitReady(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
  return poll(&entry, 1, static_cast<int>(left.count())) > 0;
}

bool writeAll(int fd, const char* data, std::size_t size, Deadline deadline) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      data += sent;
      size -= static_cast<std::size_t>(sent);
    } else if (errno != EAGAIN || !awaitReady(fd, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool readAnswer(int fd, Deadline deadline) {
  char byte = 0;
  return awaitReady(fd, POLLIN, deadline) && recv(fd, &byte, 1, MSG_DONTWAIT) == 1;
}

double secondsSince(TimePoint start) {
  return std::chrono::duration<double>(Clock::real().now() - start).count();
}

}  // namespace

Result<Speed> measureTo(const std::string& text, Deadline deadline) {
  const auto failed = [&](std::string_view what) {
    return Status(StatusCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)));
  };
  COLLA_TRY_ASSIGN(const auto address, transport::net::Address::parse(text));
  const UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const bool begun = connect(socket.get(), address.system(), address.systemSize()) == 0;
  if (!begun && errno != EINPROGRESS) return failed("no connection");
  Speed speed;
  std::vector<double> trips;
  for (int i = 0; i < kRoundTrips; ++i) {
    if (i == 0 && !awaitReady(socket.get(), POLLOUT, deadline)) return failed("no connection");
    const TimePoint start = Clock::real().now();
    if (!writeAll(socket.get(), &kPing, 1, deadline) || !readAnswer(socket.get(), deadline)) {
      return failed("no answer");
    }
    trips.push_back(secondsSince(start));
  }
  std::ranges::nth_element(trips, trips.begin() + kRoundTrips / 2);
  speed.roundTrip = trips[kRoundTrips / 2];

  const std::vector<char> block(1 << 20, kFill);
  const TimePoint start = Clock::real().now();
  double sent = 0;
  while (Clock::real().now() < start + kStreamFor) {
    if (!writeAll(socket.get(), block.data(), block.size(), deadline)) return failed("no stream");
    sent += static_cast<double>(block.size());
  }
  // What is sent may still be under way: the answer comes after the last of it.
  if (!writeAll(socket.get(), &kLast, 1, deadline) || !readAnswer(socket.get(), deadline)) {
    return failed("no answer");
  }
  speed.bandwidth = sent / secondsSince(start);
  return speed;
}

void serveMeasurement(int listener, Deadline deadline) {
  if (!awaitReady(listener, POLLIN, deadline)) return;
  const UniqueFd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  std::vector<char> buffer(1 << 18);
  while (awaitReady(socket.get(), POLLIN, deadline)) {
    const ssize_t size = recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size <= 0) return;
    const char last = buffer[static_cast<std::size_t>(size) - 1];
    if (last != kFill && !writeAll(socket.get(), &last, 1, deadline)) return;
  }
}

}  // namespace colla::launch
