// How long a training stands still when its workers change: a part of `colla bench train`.
#pragma once

#include <string>

#include "bench/benchmark.h"
#include "colla/status.h"

namespace colla::bench {

// Four workers of a job on this host, by allreduce and with parameter servers: a record for each.
Result<Records> measureEpochs(Coordinator& coordinator, const CommonOptions& options);

std::string epochsTable(const Records& records);

}  // namespace colla::bench
