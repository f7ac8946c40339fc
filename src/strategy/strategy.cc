#include "colla/strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/invalid.h"
#include "base/nearest.h"

namespace colla {
namespace {

constexpr std::array<std::string_view, 3> kSyncOptions = {"backup", "requeue-dropped",
                                                          "partitions"};
constexpr std::array<std::string_view, 2> kAsyncOptions = {"max-staleness", "partitions"};
constexpr std::array<std::string_view, 2> kSspOptions = {"staleness", "partitions"};
constexpr std::array<std::string_view, 3> kHybridOptions = {"backup", "hybrid", "partitions"};
constexpr std::array<std::string_view, 3> kLocalOptions = {"every", "outer-lr", "outer-momentum"};
constexpr std::array<std::string_view, 1> kLocalState = {kOuterMomentum};

constexpr std::array kStrategies = {
    StrategyTraits{.strategy = Strategy::kSingle,
                   .name = "single",
                   .summary = "one process runs all slices in turn",
                   .workers = WorkerKind::kOnlyOne,
                   .servers = false,
                   .sameBits = true,
                   .inStep = true,
                   .pacing = Pacing::kTogether,
                   .whenLost = WhenLost::kEnds,
                   .tables = false,
                   .difference = {},
                   .options = {}},
    StrategyTraits{.strategy = Strategy::kMirrored,
                   .name = "mirrored",
                   .summary = "one thread per worker, in one process",
                   .workers = WorkerKind::kThreads,
                   .servers = false,
                   .sameBits = true,
                   .inStep = true,
                   .pacing = Pacing::kTogether,
                   .whenLost = WhenLost::kEnds,
                   .tables = false,
                   .difference = {},
                   .options = {}},
    StrategyTraits{.strategy = Strategy::kAllreduce,
                   .name = "allreduce",
                   .summary = "one process per worker, and all of them sum gradients",
                   .workers = WorkerKind::kProcesses,
                   .servers = false,
                   .sameBits = true,
                   .inStep = true,
                   .pacing = Pacing::kTogether,
                   .whenLost = WhenLost::kEnds,
                   .tables = false,
                   .difference = {},
                   .options = {}},
    StrategyTraits{.strategy = Strategy::kPsSync,
                   .name = "ps-sync",
                   .summary = "parameter servers that wait for all workers, or with --backup for "
                              "the first ones",
                   .workers = WorkerKind::kProcesses,
                   .servers = true,
                   .sameBits = true,
                   .inStep = true,
                   .pacing = Pacing::kServersSync,
                   .whenLost = WhenLost::kBackupSpare,
                   .tables = false,
                   .difference = {},
                   .options = kSyncOptions},
    StrategyTraits{.strategy = Strategy::kPsSsp,
                   .name = "ps-ssp",
                   .summary = "parameter servers under which no worker gets more than --staleness "
                              "steps ahead of the slowest",
                   .workers = WorkerKind::kProcesses,
                   .servers = true,
                   .sameBits = true,
                   .inStep = true,
                   .pacing = Pacing::kServersSsp,
                   .whenLost = WhenLost::kOthersGoOn,
                   .tables = false,
                   .difference = {},
                   .options = kSspOptions},
    StrategyTraits{.strategy = Strategy::kPsAsync,
                   .name = "ps-async",
                   .summary = "parameter servers that apply each worker's gradients as they come",
                   .workers = WorkerKind::kProcesses,
                   .servers = true,
                   .sameBits = false,
                   .inStep = false,
                   .pacing = Pacing::kServersAsync,
                   .whenLost = WhenLost::kOthersGoOn,
                   .tables = false,
                   .difference = "it applies gradients as they come",
                   .options = kAsyncOptions},
    StrategyTraits{.strategy = Strategy::kHybrid,
                   .name = "hybrid",
                   .summary = "servers for tables with sparse gradients, allreduce for the rest",
                   .workers = WorkerKind::kProcesses,
                   .servers = true,
                   .sameBits = true,
                   .inStep = true,
                   .pacing = Pacing::kTogether,
                   .whenLost = WhenLost::kEnds,
                   .tables = true,
                   .difference = {},
                   .options = kHybridOptions},
    StrategyTraits{.strategy = Strategy::kLocalSgd,
                   .name = "local-sgd",
                   .summary = "every worker takes --every steps by itself, then all average their "
                              "parameters",
                   .workers = WorkerKind::kProcesses,
                   .servers = false,
                   .sameBits = false,
                   .inStep = false,
                   .pacing = Pacing::kRounds,
                   .whenLost = WhenLost::kEnds,
                   .tables = false,
                   .difference = "it averages parameters, not gradients",
                   .options = kLocalOptions,
                   .state = kLocalState},
};

bool takes(const StrategyTraits& traits, std::string_view option) {
  return std::ranges::find(traits.options, option) != traits.options.end();
}

std::string sentence(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

std::span<const StrategyTraits> strategies() { return kStrategies; }

const StrategyTraits& traitsOf(Strategy strategy) {
  return *std::ranges::find(kStrategies, strategy, &StrategyTraits::strategy);
}

std::string_view toString(Strategy strategy) { return traitsOf(strategy).name; }

Result<Strategy> parseStrategy(std::string_view text) {
  for (const StrategyTraits& traits : kStrategies) {
    if (text == traits.name) return traits.strategy;
  }
  std::vector<std::string> names;
  for (const StrategyTraits& traits : kStrategies) names.emplace_back(traits.name);
  return invalid("there is no strategy \"{}\": use {}{}", text, strategyNames(),
                 didYouMean(text, names));
}

Status checkTakes(Strategy strategy, std::string_view option) {
  if (takes(traitsOf(strategy), option)) return {};
  return invalid("--{} is for --strategy {}, not {}", option, strategiesTaking(option),
                 toString(strategy));
}

std::string strategiesTaking(std::string_view option) {
  std::vector<std::string_view> names;
  for (const StrategyTraits& traits : kStrategies) {
    if (takes(traits, option)) names.push_back(traits.name);
  }
  return sentence(names);
}

bool isForeignState(Strategy strategy, std::string_view state) {
  const std::string_view slot = state.substr(state.rfind('/') + 1);
  const auto saves = [&](const StrategyTraits& traits) {
    return std::ranges::find(traits.state, slot) != traits.state.end();
  };
  return !saves(traitsOf(strategy)) && std::ranges::any_of(kStrategies, saves);
}

std::string strategyNames(bool (*only)(const StrategyTraits&)) {
  std::vector<std::string_view> names;
  for (const StrategyTraits& traits : kStrategies) {
    if (only == nullptr || only(traits)) names.push_back(traits.name);
  }
  return sentence(names);
}

}  // namespace colla
