// Trainings side by side: what `colla bench train` and `colla bench ps` have in common.
//
// Agents get `prepare MODEL SAMPLES BATCH SHARE RATE PATH`: they map the files PATH.x, .y and .w
// (worker/files.h). `verify N` trains N steps of BATCH samples from the first weights, alone or
// together, answers with the loss of the last one and goes back to the first weights. `measure N`
// trains N more steps with SHARE samples for every worker. The samples come in their natural order,
// over and over; of two workers the first has the first half of every batch. BATCH and SHARE differ
// only for workers that know nothing of each other: each of them verifies a whole batch. A loss is
// the mean over what the worker saw or over the global batch: the mean over the workers is the
// same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "bench/models.h"
#include "bench/systems.h"
#include "colla/status.h"

namespace colla::bench {

struct TrainSystem {
  std::string name;
  int workers = 1;
  // The workers know nothing of each other: their rates add up.
  bool independent = false;
  // Updates are made of whatever has come: its loss differs from the others'.
  bool asynchronous = false;
};

struct TrainingOptions {
  CommonOptions common = {};
  std::vector<std::string> models = {};
  std::vector<BatchSize> batches = {};  // None: each model's own.
  std::int64_t samples = 0;             // Of every data set; 0: each model's own number.
  bool servers = false;                 // Records tell of parameter servers, too.

  std::vector<BatchSize> batchesOf(const BenchModel& model) const;
  std::int64_t samplesOf(const BenchModel& model) const {
    return samples > 0 ? samples : model.samples;
  }
};

// kInvalidArgument for a batch that does not cut the samples, or its halves, evenly.
Status checkBatches(const TrainingOptions& options);

// What agents are asked to train.
struct TrainPoint {
  const BenchModel& model;
  std::int64_t samples = 0;
  std::string path;
  BatchSize batch;
};

// All of `systems` (already started) at one point: a record for each. An error, with the two
// systems, unless their losses are within a thousandth of each other; where a batch's cut into
// shares changes the loss, only systems with equal shares are compared. Records of "colla-2" have
// exposed_seconds where "colla-2x1" was measured too.
Result<Records> measureTraining(Coordinator& coordinator, const std::vector<TrainSystem>& systems,
                                const TrainPoint& point, const RunnerOptions& how,
                                bool servers = false);

// The table of trainings, with the ratios of `ours`, and `last` behind them.
std::string trainingsTable(const Records& records, const std::vector<std::string>& ours,
                           const std::vector<Column>& last);

class TrainingsBench : public Bench {
 public:
  TrainingsBench(const TrainingOptions& options, Coordinator& coordinator)
      : Bench(options.common, coordinator), options_(options) {}

 protected:
  // Starts processes of colla-bench-train: one job, or one for each worker if these are independent
  // and there is no server.
  Status startColla(const TrainSystem& system, const std::string& strategy, int servers);
  // Makes the model's files and measures all batches; removes the files.
  Status measureModel(const BenchModel& model, Records& records);

  const TrainingOptions& options_;
  const std::string worker_ = programBeside("colla-bench-train");
  std::vector<TrainSystem> systems_;
};

}  // namespace colla::bench
