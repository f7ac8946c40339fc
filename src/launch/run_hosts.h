// `colla run` on several hosts: what run() does on one, with hosts.h in the guardian's place.
#pragma once

#include "colla/status.h"
#include "launch/run.h"

namespace colla::launch {

// Whether the job's processes can't all be started by this process. kInvalidArgument where they
// have no place.
Result<bool> needsOtherHosts(const RunOptions& options);

// As run(), for such jobs.
int runOnHosts(const RunOptions& options);

}  // namespace colla::launch
