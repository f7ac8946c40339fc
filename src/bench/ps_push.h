// How many bytes pass through one parameter server: workers that only push and get parameters back,
// beside the memory's own speed. No libtorch.
//
// Agents answer, each with one line: `prepare BYTES` (ok), `verify N` (ok: does N steps and checks
// every parameter), `measure N` (ok SECONDS).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "bench/ps_report.h"
#include "colla/status.h"

namespace colla::bench {

struct PushOptions {
  std::vector<int> workers = {1, 2, 4, 8};    // One job for each.
  std::size_t bytes = std::size_t{32} << 20;  // That each worker pushes in a step.
  int rounds = 7;
  double seconds = 0.3;
  std::function<void(const std::string& line)> progress;
};

// kNoMemory when they would not all fit.
Status checkPushMemory(const PushOptions& options);

// Starts everything and measures it, interleaved: first the memory, then each number of workers.
Result<std::vector<PushMeasurement>> measurePush(Coordinator& coordinator,
                                                 const PushOptions& options);

}  // namespace colla::bench
