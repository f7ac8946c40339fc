#include "observe/metrics_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/crc32c.h"

namespace colla::observe {
namespace {

constexpr timeval kWriteLimit{.tv_sec = 1, .tv_usec = 0};  // For a reader that does not read.
constexpr std::size_t kLongestPage = 16 << 20;

struct SocketAddress {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit SocketAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    // Abstract: the path begins with a zero byte.
    const std::size_t bytes = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::copy_n(name.data(), bytes, address.sun_path + 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UniqueFd unixSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Abstract sockets have no permissions: any user of the host can connect to one, or take its name.
bool sameUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// One source while its page is on its way.
struct Reading {
  UniqueFd fd;
  std::string page;
  bool whole = false;

  // What there is now; closes the socket at its end.
  void read() {
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return;
      if (size > 0) page.append(buffer.data(), static_cast<std::size_t>(size));
      if (size > 0 && page.size() <= kLongestPage) continue;
      whole = size == 0 && page.ends_with(kPageEnd);
      fd.reset();
      return;
    }
  }
};

Reading connectTo(const MetricsSource& source) {
  Reading reading;
  reading.fd = unixSocket();
  const SocketAddress address(source.socket);
  // Never in progress: a Unix socket connects at once or not at all.
  if (connect(reading.fd.get(), address.get(), address.length) != 0 ||
      !sameUser(reading.fd.get())) {
    reading.fd.reset();
  }
  return reading;
}

}  // namespace

std::string metricsSocketName(std::string_view jobId, const ProcessLabels& labels) {
  // Launchers' job ids may be longer than a socket's name.
  const std::string_view start = jobId.substr(0, 32);
  return fmt::format("colla-metrics-{}-{}-{:08x}-{}-{}", geteuid(), start,
                     crc32c(std::as_bytes(std::span(jobId))), labels.role, labels.rank);
}

Result<std::unique_ptr<MetricsSocket>> MetricsSocket::serve(const std::string& name,
                                                            std::function<std::string()> page) {
  UniqueFd listener = unixSocket();
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const SocketAddress address(name);
  if (!listener.valid() || !stop.valid() ||
      bind(listener.get(), address.get(), address.length) != 0 ||
      listen(listener.get(), /*backlog=*/4) != 0) {
    return {StatusCode::kIo,
            fmt::format("no socket for metrics at @{}: {}", name, std::strerror(errno))};
  }
  return std::unique_ptr<MetricsSocket>(
      new MetricsSocket(std::move(listener), std::move(stop), std::move(page)));
}

MetricsSocket::MetricsSocket(UniqueFd listener, UniqueFd stop, std::function<std::string()> page)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      page_(std::move(page)),
      thread_([this] { serveOnThread(); }) {}

MetricsSocket::~MetricsSocket() {
  const std::uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void MetricsSocket::serveOnThread() {
  for (;;) {
    std::array<pollfd, 2> polls = {pollfd{listener_.get(), POLLIN, 0},
                                   pollfd{stop_.get(), POLLIN, 0}};
    if (poll(polls.data(), polls.size(), -1) < 0) continue;
    if (polls[1].revents != 0) return;
    const UniqueFd reader(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!reader.valid() || !sameUser(reader.get())) continue;
    setsockopt(reader.get(), SOL_SOCKET, SO_SNDTIMEO, &kWriteLimit, sizeof(kWriteLimit));
    const std::string page = page_();
    for (std::string_view rest = page; !rest.empty();) {
      const ssize_t size = send(reader.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(size));
    }
  }
}

std::vector<std::string> collectPages(std::span<const MetricsSource> sources, Deadline deadline) {
  std::vector<Reading> readings;
  for (const MetricsSource& source : sources) readings.push_back(connectTo(source));
  for (;;) {
    std::vector<pollfd> polls;
    std::vector<Reading*> polled;
    for (Reading& reading : readings) {
      if (!reading.fd.valid()) continue;
      polls.push_back({reading.fd.get(), POLLIN, 0});
      polled.push_back(&reading);
    }
    if (polls.empty() || deadline.expired()) break;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    if (poll(polls.data(), polls.size(), static_cast<int>(left.count())) < 0) continue;
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents != 0) polled[i]->read();
    }
  }
  std::vector<std::string> pages;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    pages.push_back(upPage(sources[i].labels, readings[i].whole));
    if (readings[i].whole) pages.push_back(std::move(readings[i].page));
  }
  return pages;
}

}  // namespace colla::observe
