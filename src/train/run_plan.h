// TrainOptions with every open question answered: by the user, by the checkpoint that a run
// resumes from, or by a default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "colla/trainer.h"
#include "ps/policy.h"

namespace colla::train {

struct RunPlan {
  TrainOptions options;
  Strategy strategy = Strategy::kSingle;
  int workers = 1;
  int slices = 1;
  int threads = 0;  // 0: the job's default, cores / workers.
  std::uint64_t seed = 1;
  std::int64_t batch = 100;  // Global.
  // Of the checkpoint that the run resumes from.
  std::optional<std::int64_t> resumeStep;
  std::string model;  // With its options.
  // Of the servers, for a strategy that has them.
  std::optional<ps::PolicyOptions> policy;
  bool chooseRoutes = false;  // Hybrid's tables go where the first batch's rows suggest.
};

// ServerOptions::partitions: found by measurement.
inline constexpr int kAutoPartitions = -1;

// What servers are told, under a strategy that has them.
Result<ps::PolicyOptions> policyOf(Strategy strategy, const ServerOptions& servers, int workers);

// Where a run directory keeps its checkpoints.
std::string checkpointsOf(const std::string& directory);

// `workers`: how many a launcher has started; 0 without one. `batch`: the task's.
// kInvalidArgument, with the flag, for what can't be.
Result<RunPlan> makePlan(const TrainOptions& options, int workers, std::int64_t batch = 100);

// kMismatch if the plan resumes from a checkpoint of another model, or of one with other options.
Status checkModel(const RunPlan& plan, const Task& task);

}  // namespace colla::train
