// How the workers of a job agree on the next parameters, and what each strategy promises.
//
// The table behind strategies() is the one place that knows them: flags, --help, refusals, `colla
// demo` and the table in the docs are made from it. Needs no libtorch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla {

enum class Strategy : std::uint8_t {
  kSingle,     // One process runs all slices in turn.
  kMirrored,   // One thread per worker, in one process.
  kAllreduce,  // One process per worker.
  kPsSync,     // Servers hold the parameters; a step waits for all workers, or for the first ones.
  kPsAsync,    // Servers apply each worker's gradients as they come.
  kPsSsp,      // The same, but no worker gets too far ahead of the slowest.
  kHybrid,     // Servers hold the tables of rows; allreduce sums everything else.
  kLocalSgd,   // Workers train by themselves and average their parameters now and then.
};

// Where the workers of a strategy run.
enum class WorkerKind : std::uint8_t { kOnlyOne, kThreads, kProcesses };

// How the steps of workers relate to each other and to updates.
enum class Pacing : std::uint8_t {
  kTogether,      // Every step waits for every worker, and is one update.
  kServersSync,   // The same, but servers may be allowed to go on without the last workers.
  kServersAsync,  // Each worker's gradients are an update of their own.
  kServersSsp,    // The same, but a worker waits for those who are too far behind.
  kRounds,        // Workers make updates by themselves, and all meet after some steps.
};

// What becomes of a training that has lost a worker for good.
enum class WhenLost : std::uint8_t {
  kEnds,         // It ends.
  kBackupSpare,  // The others go on, if --backup allows for as many lost workers.
  kOthersGoOn,
};

// What a strategy promises and needs, with the default values of its options.
struct StrategyTraits {
  Strategy strategy;
  std::string_view name;     // As --strategy takes it.
  std::string_view summary;  // For --help and docs: a phrase.
  WorkerKind workers;
  bool servers;   // It needs parameter servers beside the workers.
  bool sameBits;  // Every checkpoint equals that of `single` in every bit.
  bool inStep;    // Every worker takes part in every update.
  Pacing pacing;
  WhenLost whenLost;
  bool tables;  // For models with tables of rows; others it trains as allreduce does.
  // Why the bits differ from `single`, for people; empty with sameBits.
  std::string_view difference;
  // The flags that only some strategies take, and this one does, without the dashes.
  std::span<const std::string_view> options;
  // What it saves for each parameter beside the optimizer's own state: names behind a slash. Other
  // strategies leave it out when they go on from such a checkpoint.
  std::span<const std::string_view> state = {};
};

// What local-sgd's outer optimizer saves.
inline constexpr std::string_view kOuterMomentum = "outer_momentum";

// All of them, in the order in which people should read of them.
std::span<const StrategyTraits> strategies();
const StrategyTraits& traitsOf(Strategy strategy);

// Whether it needs servers beside the workers.
inline bool hasServers(Strategy strategy) { return traitsOf(strategy).servers; }

std::string_view toString(Strategy strategy);
Result<Strategy> parseStrategy(std::string_view text);

// Fine if `strategy` takes the flag `option`; otherwise kInvalidArgument, with those that do.
Status checkTakes(Strategy strategy, std::string_view option);

// The strategies that take the flag `option`, as a sentence has them.
std::string strategiesTaking(std::string_view option);
// Whether `state`, as in "PARAMETER/outer_momentum", is what some strategy saves, but not this one.
bool isForeignState(Strategy strategy, std::string_view state);

// Their names as a sentence has them: "single, mirrored or allreduce". With `only`, those for which
// it holds.
std::string strategyNames(bool (*only)(const StrategyTraits&) = nullptr);

}  // namespace colla
