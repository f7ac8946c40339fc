// What this machine has, and what processes take of it.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "colla/status.h"

namespace colla::bench {

// Bytes that new processes can have; the largest number where nobody says.
std::size_t availableMemory();

// The memory of a process, in which a page that n processes share counts as an n-th.
Result<std::size_t> proportionalSetSize(pid_t process);

// The processor time that a process and its descendants (mpirun's ranks) have taken so far; 0 if
// there is no such process.
double cpuSeconds(pid_t process);

// To be called while nothing of ours runs yet: prints a line on stderr when cores are busy.
void warnIfBusy();

}  // namespace colla::bench
