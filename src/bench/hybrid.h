// The benchmark of strategies on hosts with limited links, as a whole: a model with large tables
// and sparse gradients, trained with parameter servers for these tables, for everything and for
// nothing.
#pragma once

#include <string>
#include <vector>

#include "bench/hybrid_job.h"
#include "colla/status.h"

namespace colla::bench {

struct HybridBenchOptions {
  HybridModel model;
  std::vector<std::string> systems;  // Of hybridSystems(); in this order in every round.
  double gigabits = 1;               // Per second, of a link in each direction.
  std::int64_t checked = 20;         // Steps after which all systems must have the same bits.
  int rounds = 3;
  int warmup = 3;        // Steps at a round's beginning that do not count,
  int steps = 7;         // and those that do.
  std::string jsonFile;  // Empty: none.
  std::string program;   // colla, with colla-train beside it.
};

// kInvalidArgument for a batch that the workers cannot share evenly.
Status check(const HybridBenchOptions& options);

// As benchTrain(). Different bits are a failure.
int benchHybrid(const HybridBenchOptions& options);

}  // namespace colla::bench
