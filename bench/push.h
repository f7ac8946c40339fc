// How many bytes pass through one parameter server: workers that only push gradients and get
// parameters back, beside the memory's own speed. No libtorch. `prepare` is followed by BYTES.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/benchmark.h"
#include "colla/status.h"

namespace colla::bench {

struct PushOptions {
  CommonOptions common;
  std::vector<int> workers = {1, 2, 4, 8};    // One job for each.
  std::size_t bytes = std::size_t{32} << 20;  // That each worker pushes in a step.
};

// Starts everything and measures it: first the memory ("memory-1": one core, "memory": all), then
// each number of workers. kNoMemory when they would not all fit.
Result<Records> measurePush(Coordinator& coordinator, const PushOptions& options);
std::string pushTable(const Records& records);

}  // namespace colla::bench
