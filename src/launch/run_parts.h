// What run() and runOnHosts() have in common.
#pragma once

#include <sys/resource.h>

#include "base/unique_fd.h"
#include "colla/status.h"
#include "launch/run.h"

namespace colla::launch {

// Says what is wrong; returns the exit code.
int complain(const RunOptions& options, const Status& status, int exitCode);
int exitCodeOf(const Status& planning);

// Descriptors 0 to 2 belong to somebody, so that no file or pipe of ours gets their numbers.
void fillStandardDescriptors();

// As many open files as we may have.
void raiseFileLimit(rlimit files);

// Blocks the signals that are passed on, and returns a descriptor to read them from. A signal that
// is ignored (SIGHUP by nohup) stays so.
UniqueFd takeSignals();

}  // namespace colla::launch
