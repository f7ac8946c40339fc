// The training directories below a directory: what each run was, and how far it came.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::study {

struct FoundRun {
  std::string path;
  std::string problem;  // Why it can't be read; empty: it can.
  // Of its newest checkpoint; empty or 0 where it has none:
  std::string model;
  std::string strategy;
  int workers = 0;
  std::string time;
  // Of the last whole line of its log:
  std::int64_t steps = 0;
  double loss = 0;
  double accuracy = 0;  // NaN: the model has none.
};

// Directories with the log of a run, by path; `directory` itself may be one. kInvalidArgument if it
// is not there.
Result<std::vector<FoundRun>> findRuns(const std::string& directory);

}  // namespace colla::study
