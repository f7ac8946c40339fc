#include "launch/stdin_pump.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

namespace colla::launch {

Result<StdinPump> StdinPump::create() {
  StdinPump pump;
  if (isatty(STDIN_FILENO) != 1) {
    pump.reader_.reset(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  } else {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) == 0) {
      pump.reader_.reset(ends[0]);
      pump.writer_.reset(ends[1]);
      fcntl(pump.writer_.get(), F_SETFL, O_NONBLOCK);
    }
  }
  if (pump.reader_.valid()) return pump;
  return {StatusCode::kIo, fmt::format("no standard input for worker 0: {}", std::strerror(errno))};
}

void StdinPump::prepare(std::vector<pollfd>& polls) {
  pollfd entry{-1, 0, 0};
  if (writer_.valid() && !pending_.empty()) {
    entry = {writer_.get(), POLLOUT, 0};
  } else if (writer_.valid()) {
    // Reading a terminal from the background would stop us.
    foreground_ = tcgetpgrp(STDIN_FILENO) == getpgrp();
    if (foreground_) entry = {STDIN_FILENO, POLLIN, 0};
  }
  polls.push_back(entry);
}

void StdinPump::handle(const pollfd& poll) {
  if (!writer_.valid() || poll.revents == 0) return;
  if (pending_.empty()) {
    std::array<char, PIPE_BUF> buffer;
    const ssize_t size = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (size <= 0) return writer_.reset();
    pending_.assign(buffer.data(), static_cast<std::size_t>(size));
  }
  const ssize_t written = write(writer_.get(), pending_.data(), pending_.size());
  if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (written < 0) return writer_.reset();  // Worker 0 does not read any more.
  pending_.erase(0, static_cast<std::size_t>(written));
}

TimePoint StdinPump::nextDeadline(TimePoint now) const {
  // We may be brought to the foreground without notice.
  const bool waiting = writer_.valid() && pending_.empty() && !foreground_;
  return waiting ? now + std::chrono::milliseconds(500) : TimePoint::max();
}

}  // namespace colla::launch
