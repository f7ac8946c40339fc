#include "train/main.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/command_line.h"
#include "base/invalid.h"
#include "job/cluster.h"
#include "job/environment.h"
#include "job/settings.h"
#include "launch/start_workers.h"
#include "launch/supervisor.h"
#include "train/left_behind.h"
#include "train/model_check.h"
#include "train/run_plan.h"

namespace colla::train {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitInterrupted = 130;

int fail(const std::string& program, const Status& status) {
  fmt::print(stderr, "{}: {}\n", program, status.message());
  return kExitFailure;
}

// Whether an error says nothing of what is saved: those of user code, and of processes that are
// gone or silent. What is refused has not begun, and what can't be saved names the checkpoint
// before.
bool leavesOpenWhatIsSaved(StatusCode code) {
  return code == StatusCode::kPeerLost || code == StatusCode::kGroupBroken ||
         code == StatusCode::kTimeout || code == StatusCode::kInternal ||
         code == StatusCode::kNoMemory;
}

// The end of a process that trains. Where a front has started it, the front has the last word.
int endWorker(const std::string& program, const Result<Summary>& summary,
              const TrainOptions& options, const job::Place& place) {
  const bool speaks = !launch::startedByFront();
  if (!summary.ok()) {
    const Status& status = summary.status();
    if (!speaks) {
      const bool followed =
          status.code() == StatusCode::kPeerLost || status.code() == StatusCode::kGroupBroken;
      fail(program, status);
      return followed ? launch::kExitFollowed : kExitFailure;
    }
    const bool tells = leavesOpenWhatIsSaved(status.code()) && hasCheckpoint(options.directory);
    if (!tells) return fail(program, status);
    return fail(program, {status.code(), fmt::format("{}; {}", status.message(),
                                                     leftBehind(options.directory, place))});
  }
  if (!summary->interrupted) return 0;
  if (speaks && place.role == Role::kWorker && place.rank == 0) {
    fmt::print(stderr, "{}: interrupted after step {}; {}\n", program, summary->train.step,
               leftBehind(options.directory, place));
  }
  return kExitInterrupted;
}

// The end of a front: processes that were killed, or that a library has ended, could not say what
// is left. A usage error (a refusal) has trained nothing.
int endFront(const std::string& program, int exitCode, const TrainOptions& options,
             const job::Place& place) {
  constexpr int kSignalled = 128;
  if (exitCode == 0 || exitCode == kExitUsage) return exitCode;
  if (exitCode > kSignalled || hasCheckpoint(options.directory)) {
    fmt::print(stderr, "{}: {}\n", program, leftBehind(options.directory, place));
  }
  return exitCode;
}

// As many as were asked for. Under a launcher nothing need be said.
int serversOf(const RunPlan& plan, const job::Place& place) {
  const int wanted = plan.options.strategyOptions.servers.count;
  return wanted > 0 || place.launcher != "none" ? wanted : 1;
}

// How many workers the others can do without, to the end.
int spareOf(const RunPlan& plan) {
  if (!plan.policy || traitsOf(plan.strategy).whenLost == WhenLost::kEnds) return 0;
  return plan.policy->spare();
}

// Threads of a checkpoint reach the workers as those of a flag do: a launcher would set its own.
Config withThreads(const Config& config, const RunPlan& plan) {
  if (plan.threads == 0) return config;
  return config.with("threads", std::to_string(plan.threads), flagName("threads"));
}

// Workers as processes, and servers for a training. An exit code if this was the front.
Result<std::optional<int>> startWorkers(Task& task, const TrainOptions& options,
                                        const Config& config, Purpose purpose,
                                        launch::RunOptions where = {}, bool checksModel = false) {
  COLLA_TRY(job::checkSecretFile(config));
  COLLA_TRY_ASSIGN(const job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  COLLA_TRY_ASSIGN(const RunPlan plan, makePlan(options, place, task, purpose));
  // The others have no processes to start, but their settings take the same way.
  const bool servers = hasServers(plan.strategy) && purpose == Purpose::kTrain;
  const bool processes = traitsOf(plan.strategy).workers == WorkerKind::kProcesses;
  if (!processes && !where.hosts.empty()) {
    return invalid("-H is for workers that are processes, but those of --strategy {} are not",
                   toString(plan.strategy));
  }
  const launch::StartOptions start{.workers = processes ? plan.workers : 0,
                                   .servers = servers ? serversOf(plan, place) : 0,
                                   .spareWorkers = spareOf(plan),
                                   .where = std::move(where),
                                   .ownTorch = true,
                                   .config = withThreads(config, plan)};
  COLLA_TRY_ASSIGN(const bool front, launch::becomesFront(place, start));
  // What a run makes of evaluations depends on the model's metrics. A process that is the whole job
  // refuses what is wrong with them as a front does.
  const bool trains = purpose == Purpose::kTrain;
  const bool alone = !front && place.launcher == "none";
  if (trains && ((front && checksModel) || ((front || alone) && goesByEvaluations(task, plan)))) {
    COLLA_TRY(checkModelAside(task, plan, Deadline::after(config.seconds("start_timeout"))));
  }
  if (front) task = {};  // It may hold data open, which the front has no use for.
  return launch::startWorkers(start);
}

// 2 where it was the user's words, 1 otherwise.
int failedToStart(const std::string& program, const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? usageError(program, status.message())
                                                       : fail(program, status);
}

// The settings, in the place that lists of all processes give this one.
Result<Config> configOf(const Flags& flags) {
  COLLA_TRY_ASSIGN(Config config, flags.config());
  COLLA_TRY(flags.cluster().enter(config));
  return config;
}

std::string lineOf(const Evaluation& evaluation) {
  std::string text = fmt::format("step {} - {} samples - loss: {:.4f}", evaluation.step,
                                 evaluation.samples, evaluation.loss);
  for (std::size_t i = 0; i < evaluation.names.size(); ++i) {
    text += fmt::format(" - {}: {:.4f}", evaluation.names[i], evaluation.metrics[i]);
  }
  return text;
}

std::string jsonOf(const Evaluation& evaluation) {
  nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < evaluation.names.size(); ++i) {
    metrics[evaluation.names[i]] = evaluation.metrics[i];
  }
  return nlohmann::ordered_json{{"step", evaluation.step},
                                {"samples", evaluation.samples},
                                {"loss", evaluation.loss},
                                {"metrics", metrics}}
      .dump();
}

}  // namespace

int runEvaluation(const std::string& program, Task task, const Flags& flags) {
  const auto config = configOf(flags);
  if (!config.ok()) return usageError(program, config.status().message());
  const auto options = flags.options(*config, /*resumes=*/true);
  if (!options.ok()) return usageError(program, options.status().message());
  if (const Status status = flags.checkEvaluation(); !status.ok()) {
    return usageError(program, status.message());
  }
  if (options->directory.empty()) {
    return usageError(program, "--eval needs --checkpoint-dir, the directory of a run");
  }
  return runEvaluation(program, std::move(task), *options, *config, options->json);
}

int runProgram(const std::string& program, Task task, const Flags& flags, bool checksModel) {
  const auto config = configOf(flags);
  if (!config.ok()) return usageError(program, config.status().message());
  auto options = flags.options(*config);
  if (!options.ok()) return usageError(program, options.status().message());
  if (const Status status = flags.applyTo(task.optimizer); !status.ok()) {
    return usageError(program, status.message());
  }
  auto where = flags.where(*options);
  if (!where.ok()) return usageError(program, where.status().message());
  const auto front =
      startWorkers(task, *options, *config, Purpose::kTrain, *std::move(where), checksModel);
  if (!front.ok()) return failedToStart(program, front.status());
  const auto place = job::readEnvironment([](const char* name) { return std::getenv(name); });
  if (!place.ok()) return fail(program, place.status());
  if (front->has_value()) return endFront(program, **front, *options, *place);
  return endWorker(program, Trainer(std::move(task)).run(*options), *options, *place);
}

int runEvaluation(const std::string& program, Task task, TrainOptions options, const Config& config,
                  const std::string& json) {
  options.resume = true;
  if (config.integer("slices") > 0) options.slices = static_cast<int>(config.integer("slices"));
  if (config.integer("threads") > 0) options.threads = static_cast<int>(config.integer("threads"));
  const auto front = startWorkers(task, options, config, Purpose::kEvaluate);
  if (!front.ok()) return failedToStart(program, front.status());
  if (front->has_value()) return **front;
  const auto evaluation = Trainer(std::move(task)).evaluate(options);
  if (!evaluation.ok()) return fail(program, evaluation.status());
  const auto place = job::readEnvironment([](const char* name) { return std::getenv(name); });
  if (!place.ok() || place->rank > 0) return 0;
  if (json != "-") fmt::print("{}\n", lineOf(*evaluation));
  const Status written = writeJson(json, jsonOf(*evaluation));
  return written.ok() ? 0 : fail(program, written);
}

}  // namespace colla::train
