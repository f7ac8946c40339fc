// A network namespace of its own for a part of a test.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace colla::test {

// What `body` returns in a process that has a network namespace of its own, with a loopback
// interface that is down. Nothing: this process has no right to make one.
inline std::optional<std::string> inOwnNetwork(const std::function<std::string()>& body) {
  constexpr int kNoRight = 77;
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(kNoRight);
    const std::string said = body();
    _exit(write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  const UniqueFd reading(ends[0]);
  close(ends[1]);
  std::string said;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(reading.get(), buffer.data(), buffer.size())) > 0;) {
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return std::nullopt;
  if (WEXITSTATUS(status) == kNoRight) return std::nullopt;
  return said;
}

}  // namespace colla::test
