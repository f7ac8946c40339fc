// TrainOptions with every open question answered: by the user, by the checkpoint that a run
// resumes from, or by a default.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "colla/trainer.h"
#include "job/environment.h"
#include "ps/policy.h"
#include "train/exchange/exchange.h"

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
  std::string model;                           // With its options.
  std::map<std::string, std::string> resumed;  // What else its manifest has (Manifest::extra).
  // Of the servers, for a strategy that has them.
  std::optional<ps::PolicyOptions> policy;
  StepRules rules;
  bool chooseRoutes = false;  // Hybrid's tables go where the first batch's rows suggest.
};

// What servers are told, under a strategy that has them.
Result<ps::PolicyOptions> policyOf(Strategy strategy, const ServerOptions& servers, int workers);

// What a flag about checkpoints ends with when there is no directory for them.
Status needsDirectory(std::string_view flag);

// Where a run directory keeps its checkpoints.
std::string checkpointsOf(const std::string& directory);

// What a task is trained with, under this plan.
Optimizer optimizerOf(const Task& task, const RunPlan& plan);
std::vector<ParameterGroup> groupsOf(const Task& task, const RunPlan& plan);
double clipNormOf(const Task& task, const RunPlan& plan);
Schedule scheduleOf(const Task& task, const RunPlan& plan);
// All of it in words: how gradients change parameters.
std::string optimizerText(const Task& task, const RunPlan& plan);

enum class Purpose { kTrain, kEvaluate };

// The plan of the process at `place`, and of the front before it starts any. kInvalidArgument, with
// the flag, for what can't be, among it a training that goes on as another than it began, or one
// that begins where another has been. kMismatch for a checkpoint of another model, or of one with
// other options.
Result<RunPlan> makePlan(const TrainOptions& options, const job::Place& place, const Task& task,
                         Purpose purpose);

}  // namespace colla::train
