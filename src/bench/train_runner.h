// Measures trainings against each other, as runner.h does collectives: every round asks each system
// in turn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "bench/train_agent.h"
#include "bench/train_report.h"
#include "bench/train_systems.h"
#include "colla/status.h"

namespace colla::bench {

struct TrainRunnerOptions {
  int rounds = 7;
  double seconds = 0.3;  // What one measurement should take.
  int verifySteps = 20;  // After which losses are compared.
  // Systems are compared only with those that cut a batch into as many shares; those that have
  // batches of another size never are.
  bool batchStatistics = false;
  // No new round of a point is begun after so long, so that the whole run is bounded.
  std::chrono::seconds pointLimit{60};
  // Told before each measurement; may be empty.
  std::function<void(const std::string& line)> progress;
};

// Seconds of one global batch, when `steps` steps took each worker so long. Workers that train
// together are as fast as the slowest; the rates of independent ones, which have equal shares of
// the batch, add up.
double stepSeconds(const std::vector<double>& workers, long steps, bool independent);

// kInternal, with the two systems, unless all losses are finite and within a thousandth of the
// first.
Status checkLosses(const std::vector<TrainMeasurement>& measurements, int steps);

// kInternal for a loss that is no number: all that can be asked of updates made in any order, which
// a busy machine makes arbitrarily stale.
Status checkFinite(const TrainMeasurement& one);

// All of `systems` (already started) at one point, whose batch and share are each system's part of
// `batch`. Fills exposedSeconds of "colla-2" where "colla-2x1" was measured too.
Result<std::vector<TrainMeasurement>> measureTraining(Coordinator& coordinator,
                                                      const std::vector<TrainSystem>& systems,
                                                      const TrainPoint& point, BatchSize batch,
                                                      const TrainRunnerOptions& options);

}  // namespace colla::bench
