// What this machine has, and what processes take of it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "colla/status.h"

namespace colla::bench {

// kNoMemory, with what to choose less of, unless new processes can have `need` bytes for `what`.
Status checkMemory(std::size_t need, const std::string& what, const std::string& advice);

// The memory of a process, in which a page that n processes share counts as an n-th.
Result<std::size_t> proportionalSetSize(pid_t process);

// The processor time that a process and its descendants (mpirun's ranks) have taken so far; 0 if
// there is no such process.
double cpuSeconds(pid_t process);

// To be called while nothing of ours runs yet: prints a line on stderr when cores are busy.
void warnIfBusy();

}  // namespace colla::bench
