// The options that only some strategies take. strategies() (colla/strategy.h) says which ones, and
// under what names the command line has them.
#pragma once

#include <cstdint>
#include <optional>

#include "colla/status.h"
#include "colla/strategy.h"

namespace colla {

// For the strategies with servers.
struct ServerOptions {
  static constexpr int kAutoBackup = -1;
  static constexpr int kAutoPartitions = -1;
  int count = 0;                // 0: as many as a launcher has started; without one, 1.
  int backup = 0;               // Workers that a step need not wait for; or kAutoBackup.
  bool requeueDropped = false;  // The samples of gradients that were dropped are trained later.
  std::optional<std::int64_t> maxStaleness;  // ps-async: older gradients are refused.
  std::int64_t staleness = 0;                // ps-ssp: steps that a worker may be ahead.
  int partitions = 0;  // Of each table; 0: one per server; kAutoPartitions: found by measurement.
};

// For local-sgd.
struct LocalSgdOptions {
  std::int64_t every = 8;    // Steps that a worker makes by itself between two averages.
  double outerRate = 1;      // Of the outer optimizer, SGD on the difference that a round made;
  double outerMomentum = 0;  // with Nesterov momentum it is DiLoCo. 1 and 0: the plain average.
};

// kInvalidArgument, as "every is 0, but takes 1 or more", for values that make no sense. The names
// are those of the flags.
Status validate(const LocalSgdOptions& options);

struct StrategyOptions {
  ServerOptions servers;
  LocalSgdOptions localSgd;
};

// kInvalidArgument, with the flag, for options that `strategy` does not take, or values that make
// no sense.
Status checkOptions(Strategy strategy, const StrategyOptions& options);

}  // namespace colla
