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

// Workers as processes. An exit code if this was the front.
Result<std::optional<int>> startWorkers(const TrainOptions& options, const Config& config) {
  COLLA_TRY_ASSIGN(const job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  COLLA_TRY_ASSIGN(const RunPlan plan,
                   makePlan(options, place.launcher == "none" ? 0 : place.size));
  if (plan.strategy != Strategy::kAllreduce) return std::optional<int>();
  return launch::startWorkers({.workers = plan.workers, .servers = 0, .config = config});
}

}  // namespace

int runProgram(const std::string& program, Task task, const Flags& flags) {
  auto config = flags.config();
  if (!config.ok()) return usageError(program, config.status().message());
  auto options = flags.options(*config);
  if (!options.ok()) return usageError(program, options.status().message());
  if (const Status status = flags.applyTo(task.optimizer); !status.ok()) {
    return usageError(program, status.message());
  }
  const auto front = startWorkers(*options, *config);
  if (!front.ok()) {
    return front.status().code() == StatusCode::kInvalidArgument
               ? usageError(program, front.status().message())
               : fail(program, front.status());
  }
  if (front->has_value()) return **front;
  const auto summary = Trainer(std::move(task)).run(*options);
  if (!summary.ok()) return fail(program, summary.status());
  return summary->interrupted ? kExitInterrupted : 0;
}

}  // namespace colla::train
