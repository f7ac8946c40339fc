#include "colla/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/command_line.h"
#include "base/config.h"
#include "base/log.h"
#include "colla/error.h"
#include "colla/job.h"
#include "colla/server.h"
#include "job/environment.h"
#include "job/settings.h"
#include "train/evaluation.h"
#include "train/flags.h"
#include "train/interrupt.h"
#include "train/left_behind.h"
#include "train/main.h"
#include "train/run_plan.h"
#include "train/session.h"
#include "train/user_code.h"

namespace colla {
namespace {

// What is thrown on the way becomes a Status again.
template <typename Body>
auto caught(const Body& body) -> Result<decltype(body())> {
  try {
    return body();
  } catch (...) {
    return train::currentError();
  }
}

// What the bits depend on, for worker 0 to say.
std::string settingsOf(const train::RunPlan& plan, const Job& job) {
  const std::string servers = job.servers() == 0 ? ""
                                                 : fmt::format(", {} server{}", job.servers(),
                                                               job.servers() == 1 ? "" : "s");
  return fmt::format(
      "strategy {}, {} worker{}{}, {} slice{}, seed {}, {} thread{} per slice, batch {}{}",
      toString(plan.strategy), job.size(), job.size() == 1 ? "" : "s", servers, job.slices(),
      job.slices() == 1 ? "" : "s", plan.seed, job.threads(), job.threads() == 1 ? "" : "s",
      plan.batch, plan.options.bfloat16 ? ", bfloat16" : "");
}

void announceTraining(const Task& task, const train::RunPlan& plan, const Job& job) {
  log::info("{}: {}{}", task.name, settingsOf(plan, job),
            plan.resumeStep ? fmt::format(", resuming from step {}", *plan.resumeStep) : "");
  if (!task.warning.empty()) log::warn("{}: {}", task.name, task.warning);
}

void announceEvaluation(const Task& task, const train::RunPlan& plan, const Job& job) {
  log::info("{}: evaluating step {}: {}", task.name, *plan.resumeStep, settingsOf(plan, job));
}

// A process that is a server: it trains nothing, and ends with the workers.
Summary serveWorkers(Job& job) {
  throwIfError(serve(job));
  return {};
}

JobOptions jobOptions(const train::RunPlan& plan) {
  JobOptions options;
  options.torchVersion = TORCH_VERSION;
  options.serves = hasServers(plan.strategy);
  options.settings["slices"] = std::to_string(plan.slices);
  if (plan.threads > 0) options.settings["threads"] = std::to_string(plan.threads);
  return options;
}

// One thread per replica. A worker that fails leaves the job, which ends the others.
template <typename Work>
auto runThreads(const train::RunPlan& plan, const Work& work)
    -> Result<std::invoke_result_t<Work, Job&>> {
  COLLA_TRY_ASSIGN(auto jobs, Job::inThreads(plan.workers, jobOptions(plan)));
  std::vector<std::optional<Result<std::invoke_result_t<Work, Job&>>>> results(jobs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i].emplace(caught([&] { return work(*jobs[i]); }));
      jobs[i].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The one that failed by itself tells more than those that lost it.
  for (const bool lost : {false, true}) {
    for (const auto& result : results) {
      const StatusCode code = result->status().code();
      const bool followed = code == StatusCode::kPeerLost || code == StatusCode::kGroupBroken;
      if (!result->ok() && followed == lost) return result->status();
    }
  }
  return **results[0];
}

// `work` of every worker of this process: all of them in threads, or the one that it is.
template <typename Work>
auto runWorkers(const train::RunPlan& plan, const Work& work)
    -> Result<std::invoke_result_t<Work, Job&>> {
  if (traitsOf(plan.strategy).workers == WorkerKind::kThreads) return runThreads(plan, work);
  COLLA_TRY_ASSIGN(const auto job, Job::init(jobOptions(plan)));
  if (job->role() == Role::kWorker && job->size() != plan.workers) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} workers are wanted, but this process was started as one of {}",
                        plan.workers, job->size())};
  }
  return caught([&] { return work(*job); });
}

Result<train::RunPlan> planFor(const Task& task, const TrainOptions& options,
                               train::Purpose purpose) {
  COLLA_TRY_ASSIGN(const job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  COLLA_TRY_ASSIGN(train::RunPlan plan, train::makePlan(options, place, task, purpose));
  COLLA_TRY_ASSIGN(const Config config, job::loadConfig());
  plan.chooseRoutes = traitsOf(plan.strategy).tables && config.text("hybrid") == "auto";
  const bool launched = place.launcher != "none";
  if (launched && hasServers(plan.strategy) != (place.servers > 0)) {
    return {
        StatusCode::kInvalidArgument,
        hasServers(plan.strategy)
            ? fmt::format("--strategy {} needs servers, but {} has started none: colla run --ps "
                          "1 starts one",
                          toString(plan.strategy), place.launcher)
            : fmt::format("--strategy {} has no use for the {} server{} that {} has started",
                          toString(plan.strategy), place.servers, place.servers == 1 ? "" : "s",
                          place.launcher)};
  }
  return plan;
}

Status addFlags(CLI::App& app, const std::vector<ProgramFlag>& flags) {
  for (const ProgramFlag& flag : flags) {
    std::string name = flag.name;
    std::ranges::replace(name, '_', '-');  // As parse() has it of what is typed.
    try {
      std::visit(
          [&](auto* value) {
            using Value = std::remove_pointer_t<decltype(value)>;
            CLI::Option* option = nullptr;
            if constexpr (std::is_same_v<Value, bool>) {
              option = app.add_flag(name, *value, flag.help);
            } else {
              option = app.add_option(name, *value, flag.help);
            }
            option->group("Of this program");
          },
          flag.value);
    } catch (const CLI::ConstructionError& error) {
      return {StatusCode::kInvalidArgument,
              fmt::format("the program's flag \"{}\" can't be added to Colla's own: {}", flag.name,
                          error.what())};
    }
  }
  return {};
}

// The whole of a program's main(). --help shows the task's own choices where `defaults` has them.
int runMain(int argc, char** argv, const std::string& name, const std::vector<ProgramFlag>& own,
            const Task* defaults, const std::function<Task()>& make) {
  obeyInterrupt();
  const Arguments arguments(argv + std::min(argc, 1), argv + argc);
  const std::string program = argc > 0 ? argv[0] : name;
  CLI::App app(fmt::format("Trains {}.", name), program);
  bool evaluate = false;
  app.add_flag("--eval", evaluate,
               "train nothing: evaluate the checkpoint of --checkpoint-dir DIR[@STEP], the newest "
               "by default, on the test part of the data; with --json as JSON")
      ->group("What is kept and shown");
  train::Flags flags(app);
  if (defaults != nullptr) train::showDefaults(app, *defaults);
  if (const Status status = addFlags(app, own); !status.ok()) {
    return usageError(program, status.message());
  }
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  auto task = caught(make);
  if (!task.ok()) {
    fmt::print(stderr, "{}: {}\n", program, task.status().message());
    return 1;
  }
  return evaluate ? train::runEvaluation(program, *std::move(task), flags)
                  : train::runProgram(program, *std::move(task), flags);
}

}  // namespace

Trainer::Trainer(Task task) : task_(std::move(task)) {}
Trainer::~Trainer() = default;

Result<Summary> Trainer::run(const TrainOptions& options) {
  COLLA_TRY_ASSIGN(const train::RunPlan plan, planFor(task_, options, train::Purpose::kTrain));
  COLLA_TRY_ASSIGN(const job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  const std::string& directory = plan.options.directory;
  const train::Interrupt interrupt(directory.empty() ? "" : train::wayOn(directory, place));
  return runWorkers(plan, [&](Job& job) {
    if (job.role() == Role::kServer) return serveWorkers(job);
    if (job.rank() == 0) announceTraining(task_, plan, job);
    return train::Session(job, task_, plan).run();
  });
}

Result<Evaluation> Trainer::evaluate(const TrainOptions& options) {
  TrainOptions resumed = options;
  resumed.resume = true;
  // No parameters are changed: workers are enough, however they would agree.
  const StrategyTraits* const chosen = resumed.strategy ? &traitsOf(*resumed.strategy) : nullptr;
  if (chosen != nullptr && (chosen->servers || !chosen->sameBits)) {
    resumed.strategy.reset();
    resumed.strategyOptions = {};
  }
  COLLA_TRY_ASSIGN(const train::RunPlan plan, planFor(task_, resumed, train::Purpose::kEvaluate));
  return runWorkers(plan, [&](Job& job) {
    if (job.rank() == 0) announceEvaluation(task_, plan, job);
    return train::evaluateCheckpoint(job, task_, plan);
  });
}

int Trainer::main(int argc, char** argv) {
  return runMain(argc, argv, task_.name, {}, &task_, [this] { return task_; });
}

int Trainer::main(int argc, char** argv, const std::vector<ProgramFlag>& flags,
                  const std::function<Task()>& make) {
  return runMain(argc, argv, "a model", flags, /*defaults=*/nullptr, make);
}

}  // namespace colla
