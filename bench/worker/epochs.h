// A training whose workers change, for `colla bench train --parts epochs`.
#pragma once

#include <string>

#include "colla/status.h"

namespace colla::bench {

// This process's part in it, as `colla run -np 4` starts it: trains an MLP with dropout and
// BatchNorm, and every few steps 3, 2, 4, then 1 of the job's workers go on, until the workers have
// changed `changes` times. The first worker writes to `file` how long each change took, in seconds:
// that of the worker that it held up longest.
Status trainInEpochs(const std::string& strategy, long changes, const std::string& file);

}  // namespace colla::bench
