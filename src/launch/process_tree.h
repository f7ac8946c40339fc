// Who descends from this process, and how to end all of them.
//
// A process whose parent dies becomes a child of its nearest ancestor that is a reaper (Linux
// "child subreaper"): under a reaper nothing escapes, however often it forks or calls setsid.
#pragma once

#include <sys/types.h>

#include <compare>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "base/deadline.h"

namespace colla::launch {

// A process number that cannot mean a later process: numbers are used again, start times are not.
struct ProcessId {
  pid_t pid = 0;
  unsigned long long startTime = 0;

  auto operator<=>(const ProcessId&) const = default;
};

// The command line of this process as the kernel shows it to others, NUL after each word; empty if
// it does not say where it is. Who writes there changes what others see.
std::span<char> ownCommandLine();

// All descendants of `root` (dead ones that nobody has waited for included), without those in
// `spared` and theirs.
std::vector<ProcessId> descendantsOf(pid_t root, const std::set<ProcessId>& spared = {});

// What those who call endDescendants() allow for it.
inline constexpr auto kEndLimit = std::chrono::seconds(10);

// Sends SIGKILL to every descendant of this process but `spared`, and waits for its end, again and
// again until there are none. This process must be a reaper. Calls `reaped(pid, waitStatus)` for
// each child it waited for. Returns those that were still there at the deadline: not ours to kill,
// or stuck in the kernel.
std::vector<ProcessId> endDescendants(const std::set<ProcessId>& spared, Deadline deadline,
                                      const std::function<void(pid_t, int)>& reaped);

}  // namespace colla::launch
