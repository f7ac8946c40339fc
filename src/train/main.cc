#include "train/main.h"

#include <fmt/format.h>

#include <cstdlib>

#include "job/environment.h"
#include "launch/start_workers.h"
#include "train/run_plan.h"

namespace colla::train {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitInterrupted = 130;

int fail(const std::string& program, const Status& status) {
  fmt::print(stderr, "{}: {}\n", program, status.message());
  return kExitFailure;
}

// As many as were asked for. Under a launcher nothing need be said.
int serversOf(const RunPlan& plan, const job::Place& place) {
  const int wanted = plan.options.servers.count;
  return wanted > 0 || place.launcher != "none" ? wanted : 1;
}

// How many workers the others can do without, to the end.
int spareOf(const RunPlan& plan) {
  return plan.policy && traitsOf(plan.strategy).losesWorkers ? plan.policy->spare() : 0;
}

// Threads of a checkpoint reach the workers as those of a flag do: a launcher would set its own.
Config withThreads(const Config& config, const RunPlan& plan) {
  if (plan.threads == 0) return config;
  return config.with("threads", std::to_string(plan.threads), flagName("threads"));
}

// Workers as processes, and servers for a training. An exit code if this was the front.
Result<std::optional<int>> startWorkers(Task& task, const TrainOptions& options,
                                        const Config& config, Purpose purpose) {
  COLLA_TRY_ASSIGN(const job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  COLLA_TRY_ASSIGN(const RunPlan plan, makePlan(options, place, task, purpose));
  // The others have no processes to start, but their settings take the same way.
  const bool servers = hasServers(plan.strategy) && purpose == Purpose::kTrain;
  const bool processes = traitsOf(plan.strategy).workers == WorkerKind::kProcesses;
  const launch::StartOptions start{.workers = processes ? plan.workers : 0,
                                   .servers = servers ? serversOf(plan, place) : 0,
                                   .spareWorkers = spareOf(plan),
                                   .config = withThreads(config, plan)};
  COLLA_TRY_ASSIGN(const bool front, launch::becomesFront(place, start));
  if (front) task = {};  // It may hold data open, which the front has no use for.
  return launch::startWorkers(start);
}

// 2 where it was the user's words, 1 otherwise.
int failedToStart(const std::string& program, const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? usageError(program, status.message())
                                                       : fail(program, status);
}

}  // namespace

int runProgram(const std::string& program, Task task, const Flags& flags) {
  auto config = flags.config();
  if (!config.ok()) return usageError(program, config.status().message());
  if (const Status status = flags.cluster().enter(*config); !status.ok()) {
    return usageError(program, status.message());
  }
  auto options = flags.options(*config);
  if (!options.ok()) return usageError(program, options.status().message());
  if (const Status status = flags.applyTo(task.optimizer); !status.ok()) {
    return usageError(program, status.message());
  }
  const auto front = startWorkers(task, *options, *config, Purpose::kTrain);
  if (!front.ok()) return failedToStart(program, front.status());
  if (front->has_value()) return **front;
  const auto summary = Trainer(std::move(task)).run(*options);
  if (!summary.ok()) return fail(program, summary.status());
  return summary->interrupted ? kExitInterrupted : 0;
}

int runEvaluation(const std::string& program, Task task, TrainOptions options, const Config& config,
                  const std::function<void(const Evaluation&)>& show) {
  options.resume = true;
  if (config.integer("slices") > 0) options.slices = static_cast<int>(config.integer("slices"));
  if (config.integer("threads") > 0) options.threads = static_cast<int>(config.integer("threads"));
  const auto front = startWorkers(task, options, config, Purpose::kEvaluate);
  if (!front.ok()) return failedToStart(program, front.status());
  if (front->has_value()) return **front;
  const auto evaluation = Trainer(std::move(task)).evaluate(options);
  if (!evaluation.ok()) return fail(program, evaluation.status());
  const auto place = job::readEnvironment([](const char* name) { return std::getenv(name); });
  if (place.ok() && place->rank == 0) show(*evaluation);
  return 0;
}

}  // namespace colla::train
