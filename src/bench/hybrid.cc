#include "bench/hybrid.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "bench/benchmark.h"
#include "bench/hybrid_report.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "checkpoint/compare.h"

namespace colla::bench {
namespace {

// What was seen of one system so far.
struct Seen {
  HybridSystem system;
  std::vector<double> roundSeconds;
  std::optional<std::vector<LinkLoad>> loads;
};

// The first system's checkpoint, with which those of the others are compared. Only two are there at
// a time: they are large.
class Bits {
 public:
  explicit Bits(const Scratch& scratch) : scratch_(scratch) {}

  std::string directoryOf(const HybridSystem& system) const {
    return scratch_.path("run-" + system.name);
  }

  // kInternal where the system has other bits than the first one.
  Status take(const HybridSystem& system) {
    if (first_.empty()) {
      first_ = system.name;
      return {};
    }
    COLLA_TRY_ASSIGN(const auto a, checkpoint::Source::open(scratch_.path("run-" + first_)));
    COLLA_TRY_ASSIGN(const auto b, checkpoint::Source::open(directoryOf(system)));
    const checkpoint::Comparison comparison = checkpoint::compare(a, b);
    for (const checkpoint::TensorComparison& tensor : comparison.tensors) {
      if (tensor.equal()) continue;
      return {StatusCode::kInternal,
              fmt::format("{} has not trained what {} has: {} is {} after the last step",
                          system.name, first_, tensor.name, checkpoint::toString(tensor.outcome))};
    }
    if (!comparison.equal()) {
      return {StatusCode::kInternal,
              fmt::format("{} and {} have different checkpoints", system.name, first_)};
    }
    std::error_code error;  // What stays goes with the scratch directory.
    std::filesystem::remove_all(directoryOf(system), error);
    return {};
  }

 private:
  const Scratch& scratch_;
  std::string first_;
};

double stepSecondsOf(const HybridRun& run, int warmup) {
  return median({run.stepSeconds.begin() + warmup, run.stepSeconds.end()});
}

HybridMeasurement measurementOf(const HybridBenchOptions& options, const Seen& seen) {
  HybridMeasurement m{.system = seen.system.name,
                      .workers = options.model.workers,
                      .batch = options.model.batch,
                      .stepSeconds = median(seen.roundSeconds),
                      .worker = {},
                      .server = {},
                      .linkBytesPerSecond = options.gigabits * 1e9 / 8,
                      .rounds = options.rounds,
                      .steps = options.steps};
  if (seen.loads) setLoads(m, *seen.loads);
  return m;
}

Result<Findings> run(const HybridBenchOptions& options, Coordinator& coordinator) {
  const std::string trainer = std::filesystem::path(options.program).parent_path() / "colla-train";
  if (access(trainer.c_str(), X_OK) != 0) {
    return {StatusCode::kUnsupported,
            fmt::format("there is no {}: this colla was built without libtorch (COLLA_TORCH=OFF)",
                        trainer)};
  }
  // One more for the server.
  COLLA_TRY_ASSIGN(const LimitedHosts hosts,
                   LimitedHosts::create(coordinator, options.model.workers + 1, options.gigabits));
  warnIfBusy();
  ProgressLine progress;
  const HybridJob job(coordinator, hosts, options.model, options.program);
  std::vector<Seen> all;
  for (const HybridSystem& system : hybridSystems()) {
    if (std::ranges::find(options.systems, system.name) != options.systems.end()) {
      all.push_back({system, {}, {}});
    }
  }
  // Trainings of their own: what is saved at the beginning travels while the first steps do.
  Bits bits(coordinator.scratch());
  for (const Seen& seen : all) {
    progress.show(fmt::format("{}, bits after step {}", seen.system.name, options.checked));
    COLLA_TRY(job.run(seen.system, options.checked, bits.directoryOf(seen.system)).status());
    COLLA_TRY(bits.take(seen.system));
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (Seen& seen : all) {
      progress.show(fmt::format("{}, round {} of {}", seen.system.name, round + 1, options.rounds));
      COLLA_TRY_ASSIGN(const HybridRun one, job.run(seen.system, options.warmup + options.steps));
      seen.roundSeconds.push_back(stepSecondsOf(one, options.warmup));
      if (one.loads) seen.loads = one.loads;
    }
  }
  std::vector<HybridMeasurement> measurements;
  for (const Seen& seen : all) measurements.push_back(measurementOf(options, seen));
  return Findings{hybridTable(measurements), hybridJson(measurements)};
}

}  // namespace

Status check(const HybridBenchOptions& options) {
  const HybridModel& model = options.model;
  if (model.batch % model.workers != 0) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("--batch {} must be a multiple of the {} workers", model.batch, model.workers)};
  }
  return {};
}

int benchHybrid(const HybridBenchOptions& options) {
  return runBenchmark(options.jsonFile,
                      [&](Coordinator& coordinator) { return run(options, coordinator); });
}

}  // namespace colla::bench
