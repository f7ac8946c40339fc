#include "train/run_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/invalid.h"
#include "checkpoint/directory.h"
#include "job/cpu.h"
#include "train/exchange/servers.h"

namespace colla::train {
namespace {

Status needsEvaluations(std::string_view flag) {
  return invalid("{} goes by evaluations on the test part: leave --no-eval out", flag);
}

Status checkNumbers(const TrainOptions& options) {
  if (options.workers < 1) return invalid("--np is {}, but takes 1 or more", options.workers);
  if (options.accumulate && *options.accumulate < 1) {
    return invalid("--accumulate is {}, but takes 1 or more", *options.accumulate);
  }
  if (options.slices && *options.slices < 1) {
    return invalid("--slices is {}, but takes 1 or more", *options.slices);
  }
  if (options.slices && options.accumulate) {
    return invalid("give --slices (of all workers) or --accumulate (of one), not both");
  }
  if (options.threads && *options.threads < 1) {
    return invalid("--threads is {}, but takes 1 or more", *options.threads);
  }
  if (options.batch && *options.batch < 1) {
    return invalid("--batch is {}, but takes 1 or more", *options.batch);
  }
  if (options.batchPerWorker && *options.batchPerWorker < 1) {
    return invalid("--batch-per-worker is {}, but takes 1 or more", *options.batchPerWorker);
  }
  if (options.batch && options.batchPerWorker) {
    return invalid("give --batch (of all workers) or --batch-per-worker, not both");
  }
  if (options.epochs < 1) return invalid("--epochs is {}, but takes 1 or more", options.epochs);
  if (options.steps && *options.steps < 1) {
    return invalid("--steps is {}, but takes 1 or more", *options.steps);
  }
  if (options.clipNorm && !(*options.clipNorm >= 0)) {
    return invalid("--clip-norm is {}, but cannot be negative", *options.clipNorm);
  }
  if (options.warmup && *options.warmup < 0) {
    return invalid("--warmup is {}, but cannot be negative", *options.warmup);
  }
  if (options.saveEvery < 0) {
    return invalid("--save-every is {}, but takes 0 or more", options.saveEvery);
  }
  if (!(options.saveSeconds >= 0)) {
    return invalid("--save-seconds is {}, but takes 0 or more", options.saveSeconds);
  }
  if (options.evalEvery < 0) {
    return invalid("--eval-every is {}, but takes 0 or more", options.evalEvery);
  }
  if (options.keep < 0) return invalid("--keep is {}, but takes 0 or more", options.keep);
  if (options.resume && options.directory.empty()) {
    return invalid("--resume needs --checkpoint-dir, the directory of the run to go on with");
  }
  if (options.directory.empty() && options.saveEvery > 0) return needsDirectory("--save-every");
  if (options.directory.empty() && options.saveSeconds > 0) return needsDirectory("--save-seconds");
  if (options.directory.empty() && !options.keepBest.empty()) return needsDirectory("--keep-best");
  if (!options.evaluate && options.earlyStop) return needsEvaluations("--early-stop");
  if (!options.evaluate && !options.keepBest.empty()) return needsEvaluations("--keep-best");
  return {};
}

std::string described(const std::string& model, const std::string& options) {
  return options.empty() ? model : fmt::format("{} ({})", model, options);
}

// A training goes on as it began. How gradients change parameters may differ: that is worker 0's to
// tell (session.cc).
Status checkSame(const checkpoint::Manifest& manifest, const RunPlan& plan) {
  checkpoint::Manifest now = manifest;
  now.seed = plan.seed;
  now.slices = plan.slices;
  now.threads = plan.threads;
  now.globalBatch = plan.batch;
  now.shuffle = plan.options.shuffle;
  now.bfloat16 = plan.options.bfloat16;
  const auto found = differences(manifest, now);
  if (found.empty()) return {};
  return invalid("cannot resume from step {} in {}: {} was {} and is {}; a run goes on as it began",
                 manifest.step, plan.options.directory, found[0].name, found[0].a, found[0].b);
}

// Checkpoints of two runs in one directory would look like those of one.
Status checkNew(const TrainOptions& options) {
  if (options.directory.empty() || options.resume) return {};
  COLLA_TRY_ASSIGN(const auto steps,
                   checkpoint::Directory(checkpointsOf(options.directory)).list());
  if (steps.empty() || steps.back() == 0) return {};
  return invalid(
      "{} has checkpoints up to step {} of another run: --resume goes on with it, or choose "
      "another --checkpoint-dir",
      options.directory, steps.back());
}

// What the run that left the checkpoint was told, where this one was told nothing.
Status takeOver(const TrainOptions& options, Purpose purpose, RunPlan& plan) {
  const checkpoint::Directory directory(
      checkpointsOf(options.directory),
      purpose == Purpose::kTrain ? checkpoint::Offer::kResume : checkpoint::Offer::kName);
  std::int64_t step = 0;
  if (options.resumeStep) {
    step = *options.resumeStep;
  } else {
    COLLA_TRY_ASSIGN(step, directory.newest());
  }
  // The tensors are read, and their checksums with them, where they are needed: by worker 0.
  COLLA_TRY_ASSIGN(const checkpoint::Manifest manifest, directory.manifest(step));
  plan.resumeStep = manifest.step;
  plan.resumed = manifest.extra;
  plan.model = described(manifest.model, manifest.modelOptions);
  if (!options.slices && !options.accumulate) plan.slices = manifest.slices;
  if (!options.threads) plan.threads = manifest.threads;
  if (!options.seed) plan.seed = manifest.seed;
  if (!options.batch && !options.batchPerWorker) plan.batch = manifest.globalBatch;
  if (!options.bfloat16) plan.options.bfloat16 = manifest.bfloat16;
  return purpose == Purpose::kTrain ? checkSame(manifest, plan) : Status();
}

// One of the program's own may lack what makes it.
bool hasOptimizer(const Optimizer& optimizer) {
  struct Made {
    bool operator()(const OptimizerOptions&) const { return true; }
    bool operator()(const TorchOptimizer& chosen) const { return chosen.make != nullptr; }
    bool operator()(const OwnOptimizerMaker& chosen) const { return chosen.make != nullptr; }
  };
  return std::visit(Made(), optimizer);
}

Status checkTask(const RunPlan& plan, const Task& task, Purpose purpose) {
  if (!task.model) return invalid("the task has no model: set Task::model, which makes one");
  if (!task.data) return invalid("the task has no data: set Task::data, which opens a part of it");
  if (!hasOptimizer(task.optimizer)) {
    return invalid("the task's optimizer has no make: set what makes one for given parameters");
  }
  if (std::ranges::count(task.hooks, nullptr) > 0) return invalid("a hook of the task is null");
  if (purpose == Purpose::kTrain && hasServers(plan.strategy)) {
    COLLA_TRY(checkForServers(task.optimizer));
  }
  const bool own = !std::holds_alternative<OptimizerOptions>(task.optimizer);
  if (plan.options.scaleRate && own) {
    return invalid(
        "the program brings its own optimizer, whose rate is its own: --scale-lr needs "
        "--optimizer");
  }
  const bool plateau = std::holds_alternative<PlateauRate>(scheduleOf(task, plan).shape);
  if (plateau && !plan.options.evaluate) return needsEvaluations("--lr-schedule plateau");
  for (const ParameterGroup& group : task.groups) {
    COLLA_TRY(validate(group));
    if (group.frozen || !own) continue;
    return invalid(
        "group \"{}\" has options of its own, which are for Colla's optimizers, but the program "
        "brings its own one: make groups there, or use --optimizer",
        group.parameters);
  }
  const std::string model = described(task.name, task.options);
  if (!plan.resumeStep || plan.model == model) return {};
  return {StatusCode::kMismatch,
          fmt::format("the checkpoint of step {} in {} is of the model {}, not of {}",
                      *plan.resumeStep, plan.options.directory, plan.model, model)};
}

}  // namespace

Result<ps::PolicyOptions> policyOf(Strategy strategy, const ServerOptions& servers, int workers) {
  ps::PolicyOptions policy;
  policy.workers = workers;
  policy.backup =
      servers.backup == ServerOptions::kAutoBackup ? ps::PolicyOptions::kAuto : servers.backup;
  policy.maxStaleness = servers.maxStaleness;
  policy.staleness = servers.staleness;
  const Pacing pacing = traitsOf(strategy).pacing;
  if (pacing == Pacing::kServersAsync) policy.consistency = ps::Consistency::kAsync;
  if (pacing == Pacing::kServersSsp) policy.consistency = ps::Consistency::kSsp;
  COLLA_TRY(validate(policy));
  return policy;
}

Status needsDirectory(std::string_view flag) {
  return invalid("{} needs --checkpoint-dir, the directory that checkpoints go to", flag);
}

std::string checkpointsOf(const std::string& directory) { return directory + "/checkpoints"; }

// Multiplies the learning rate by the number of slices if --scale-lr is set.
Optimizer optimizerOf(const Task& task, const RunPlan& plan) {
  Optimizer optimizer = task.optimizer;
  auto* options = std::get_if<OptimizerOptions>(&optimizer);
  if (plan.options.scaleRate && options != nullptr) {
    setLearningRate(*options, scaleLearningRate(learningRate(*options), plan.slices));
  }
  return optimizer;
}

// The same for groups with an optimizer of their own.
std::vector<ParameterGroup> groupsOf(const Task& task, const RunPlan& plan) {
  std::vector<ParameterGroup> groups = task.groups;
  for (ParameterGroup& group : groups) {
    if (!plan.options.scaleRate || !group.optimizer) continue;
    setLearningRate(*group.optimizer,
                    scaleLearningRate(learningRate(*group.optimizer), plan.slices));
  }
  return groups;
}

double clipNormOf(const Task& task, const RunPlan& plan) {
  return plan.options.clipNorm.value_or(task.clipNorm);
}

Schedule scheduleOf(const Task& task, const RunPlan& plan) {
  Schedule schedule = plan.options.schedule.value_or(task.schedule);
  schedule.warmup = plan.options.warmup.value_or(schedule.warmup);
  return schedule;
}

std::string optimizerText(const Task& task, const RunPlan& plan) {
  struct Text {
    std::string operator()(const OptimizerOptions& options) const { return toString(options); }
    std::string operator()(const TorchOptimizer& optimizer) const { return optimizer.text; }
    std::string operator()(const OwnOptimizerMaker& optimizer) const { return optimizer.text; }
  };
  std::string text = std::visit(Text(), optimizerOf(task, plan));
  for (const ParameterGroup& group : groupsOf(task, plan))
    text += fmt::format(", {}", toString(group));
  if (clipNormOf(task, plan) > 0) text += fmt::format(", clip-norm {}", clipNormOf(task, plan));
  const Schedule schedule = scheduleOf(task, plan);
  if (schedule != Schedule()) text += fmt::format(", lr-schedule {}", toString(schedule));
  return text;
}

Result<RunPlan> makePlan(const TrainOptions& options, const job::Place& place, const Task& task,
                         Purpose purpose) {
  COLLA_TRY(checkNumbers(options));
  const int workers = place.launcher == "none" ? 0 : place.size;  // That were started.
  RunPlan plan;
  plan.options = options;
  plan.workers = workers > 0 ? workers : options.workers;
  if (workers > 0 && options.workers > 1 && options.workers != workers) {
    return invalid("--np is {}, but {} process{} started", options.workers, workers,
                   workers == 1 ? " was" : "es were");
  }
  plan.strategy =
      options.strategy.value_or(plan.workers > 1 ? Strategy::kAllreduce : Strategy::kSingle);
  if (traitsOf(plan.strategy).workers == WorkerKind::kOnlyOne && plan.workers > 1) {
    return invalid("--strategy {} has one worker, not {}: use --slices for more slices",
                   toString(plan.strategy), plan.workers);
  }
  COLLA_TRY(checkOptions(plan.strategy, options.strategyOptions));
  if (hasServers(plan.strategy)) {
    COLLA_TRY_ASSIGN(plan.policy,
                     policyOf(plan.strategy, options.strategyOptions.servers, plan.workers));
  }
  plan.rules = stepRulesOf(plan.strategy, plan.policy);
  plan.slices = options.slices.value_or(plan.workers * options.accumulate.value_or(1));
  plan.threads = options.threads.value_or(0);
  plan.seed = options.seed.value_or(1);
  plan.batch = options.batchPerWorker ? *options.batchPerWorker * plan.workers
                                      : options.batch.value_or(task.batch);
  if (options.resume) COLLA_TRY(takeOver(options, purpose, plan));
  COLLA_TRY(checkTask(plan, task, purpose));
  // Where worker 0 is the directory counts, and before the first step nobody has saved there.
  if (place.role == Role::kWorker && place.rank == 0) COLLA_TRY(checkNew(options));
  if (plan.options.bfloat16 && job::cpuFeatures().find("bf16") == std::string::npos) {
    return invalid("--bfloat16 needs a CPU that computes with it (avx512bf16); this one is {}",
                   job::cpuFeatures());
  }
  if (plan.workers > plan.slices) {
    return invalid(
        "{} workers can't share {} slice{}: a worker runs at least one; start fewer "
        "workers or set --slices",
        plan.workers, plan.slices, plan.slices == 1 ? "" : "s");
  }
  return plan;
}

}  // namespace colla::train
