// What this machine has, and what others do on it.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "colla/status.h"

namespace colla::bench {

// Bytes that new processes can have; the largest number where nobody says.
std::size_t availableMemory();

// The memory of a process, in which what it shares with n - 1 others counts as an n-th.
Result<std::size_t> proportionalSetSize(pid_t process);

// To be called while nothing of ours runs yet: a line on stderr when others keep cores busy.
void warnIfBusy();

}  // namespace colla::bench
