#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/command_line.h"
#include "base/config.h"
#include "base/nearest.h"
#include "colla/strategy.h"
#include "commands.h"
#include "job/settings.h"
#include "launch/host_flags.h"
#include "launch/run.h"

namespace colla::cli {
namespace {

constexpr char kRun[] = "colla run";

// Strategies whose workers are processes, which a launcher can start.
bool hasProcesses(const StrategyTraits& traits) { return traits.workers == WorkerKind::kProcesses; }

constexpr double kLongest = 10.0 * 365 * 86400;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(std::min(seconds, kLongest) * 1000));
}

}  // namespace

int runCommand(const Arguments& arguments) {
  CLI::App app(
      "Starts a program as the workers and servers of one job, on this host or on several:\n"
      "colla run -np N [flags] [--] PROGRAM [arguments]",
      kRun);
  app.footer(
      "Each process finds its place in COLLA_RANK, COLLA_SIZE and others. When one fails that\n"
      "--spare-workers does not cover, all are ended; nothing is left behind. Exit code: that of "
      "the\n"
      "first such process (128 + n for signal n), 124 after --timeout, 2 for a wrong command "
      "line,\n"
      "126 for a program that can't be executed, 127 for one that is not there, 1 for what the "
      "machine\n"
      "lacks.\n\n"
      "Examples:\n"
      "  colla run -np 4 -- ./train --epochs 3\n"
      "  colla run -np 2 --threads 2 --output-dir logs -- python train.py\n"
      "  colla run -np 2 --strategy hybrid -- python train.py\n"
      "  colla run -np 8 -H a:4,b:4 -- ./train --epochs 3\n"
      "  salloc --nodes 2 --ntasks-per-node 4 colla run -- ./train --epochs 3\n");

  launch::RunOptions options;
  options.workers = 0;
  double timeout = 0;
  double grace = 5;
  bool noPrefix = false;
  std::vector<std::string> environment;
  auto* workersOption =
      app.add_option("-n,--np", options.workers,
                     "workers; also -np N. By default as many as the hosts have slots");
  auto* serversOption = app.add_option("--ps", options.servers, "parameter servers");
  std::string strategy;
  app.add_option(
         "--strategy", strategy,
         fmt::format("how the workers of a program that does not say agree: {}; {} get one "
                     "server if --ps does not say how many",
                     strategyNames(hasProcesses),
                     strategyNames([](const StrategyTraits& each) { return each.servers; })))
      ->option_text("NAME");
  app.add_option(
      "--spare-workers", options.spareWorkers,
      "go on when workers fail, up to so many, other than worker 0 (0); the program must "
      "be able to");
  app.add_option("--env", environment, "for every process; may be repeated")
      ->option_text("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  auto* timeoutOption = app.add_option("--timeout", timeout, "end the job after so many seconds")
                            ->option_text("SECONDS");
  app.add_option("--grace", grace, "seconds that processes have to end by themselves (5)")
      ->option_text("SECONDS");
  app.add_flag("--no-prefix", noPrefix, "do not say before each line whose it is");
  const launch::HostFlags hosts(app);
  const SettingFlags settings(app, job::settings());

  Arguments flags = arguments;
  options.command = takeCommand(app, flags);
  if (const auto exitCode = parse(app, flags)) return *exitCode;

  for (const std::string& entry : environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return usageError(kRun, fmt::format("--env takes NAME=VALUE, not \"{}\"", entry));
    }
    options.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  if (!strategy.empty()) {
    const auto parsed = parseStrategy(strategy);
    if (!parsed.ok() || !hasProcesses(traitsOf(*parsed))) {
      std::vector<std::string> names;
      for (const StrategyTraits& traits : strategies()) {
        if (hasProcesses(traits)) names.emplace_back(traits.name);
      }
      return usageError(kRun,
                        fmt::format("there is no strategy \"{}\" for workers: use {}{}", strategy,
                                    strategyNames(hasProcesses), didYouMean(strategy, names)));
    }
    if (hasServers(*parsed) && serversOption->count() == 0) options.servers = 1;
    options.environment.emplace_back("COLLA_STRATEGY", strategy);
  }
  if (workersOption->count() > 0 && options.workers < 1) {
    return usageError(kRun,
                      fmt::format("-np is {}, but a job has at least one worker", options.workers));
  }
  if (const Status wrong = hosts.applyTo(options); !wrong.ok()) {
    return usageError(kRun, wrong.message());
  }
  if (const Status wrong = launch::useAllocation(options); !wrong.ok()) {
    return usageError(kRun, wrong.message());
  }
  if (workersOption->count() == 0 && options.workers == 0) {
    return usageError(kRun, "--np is required, or hosts with -H or --hostfile");
  }
  if (timeoutOption->count() > 0) {
    if (!(timeout > 0)) {
      return usageError(kRun, fmt::format("--timeout is {}, but must be above 0", timeout));
    }
    options.timeout = milliseconds(timeout);
  }
  if (!(grace >= 0)) {
    return usageError(kRun, fmt::format("--grace is {}, but cannot be negative", grace));
  }
  options.grace = milliseconds(grace);
  options.prefix = !noPrefix;

  auto config = settings.load();
  if (!config.ok()) return usageError(kRun, config.status().message());
  options.config = *std::move(config);
  return launch::run(options);
}

}  // namespace colla::cli
