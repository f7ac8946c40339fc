#include "bench/ps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "bench/benchmark.h"
#include "bench/machine.h"
#include "bench/peer_python.h"
#include "bench/ps_push.h"
#include "bench/ps_report.h"
#include "bench/ps_systems.h"
#include "bench/train_files.h"
#include "bench/train_model.h"
#include "bench/train_runner.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

std::int64_t samplesOf(const TrainModel& model, const PsBenchOptions& options) {
  return options.samples > 0 ? options.samples : model.samples;
}

std::vector<std::int64_t> batchesOf(const TrainModel& model, const PsBenchOptions& options) {
  if (!options.batches.empty()) return options.batches;
  return model.name == "lr" ? std::vector<std::int64_t>{100, 500} : std::vector<std::int64_t>{100};
}

// The trainings of one benchmark.
class Trainings {
 public:
  Trainings(const PsBenchOptions& options, Coordinator& coordinator, ProgressLine& progress)
      : options_(options), coordinator_(coordinator), progress_(progress) {}

  Result<std::vector<PsMeasurement>> run() {
    if (access(options_.agentProgram.c_str(), X_OK) != 0) {
      return {StatusCode::kUnsupported,
              fmt::format("there is no {}: this colla was built without libtorch "
                          "(COLLA_TORCH=OFF); --parts push needs none",
                          options_.agentProgram)};
    }
    for (const std::string& peer : options_.peers) COLLA_TRY(startPeer(peer));
    for (const TrainSystem& system : collaPsSystems()) {
      COLLA_TRY(start(system, startCollaPs(coordinator_, system, options_.agentProgram)));
    }
    std::vector<PsMeasurement> all;
    for (const std::string& name : options_.models) {
      COLLA_TRY_ASSIGN(const TrainModel* const model, parseTrainModel(name));
      COLLA_TRY(measure(*model, all));
    }
    return all;
  }

 private:
  Status startPeer(const std::string& peer) {
    const Status status = tryPeer(peer);
    if (status.ok()) return {};
    if (options_.peersRequired || coordinator_.signal() != 0) return status.withContext(peer);
    progress_.clear();
    fmt::print(stderr, "colla bench: {} is left out: {}\n", peer, status.message());
    return {};
  }

  Status tryPeer(const std::string& peer) {
    const auto tell = [this](const std::string& line) {
      progress_.clear();
      fmt::print(stderr, "colla bench: {}\n", line);
    };
    const TrainSystem system = peerPsSystem(peer);
    COLLA_TRY_ASSIGN(const std::string python,
                     peerPython(coordinator_, peer, options_.peersRequired, tell));
    COLLA_TRY_ASSIGN(const SystemSpec spec, peer == "mxnet"
                                                ? startMxnet(coordinator_, system, python)
                                                : startTensorFlow(coordinator_, system, python));
    return start(system, spec);
  }

  Status start(const TrainSystem& system, const SystemSpec& spec) {
    progress_.show("start " + system.name);
    // A busy machine takes minutes to import the peers.
    COLLA_TRY(coordinator_.start(spec, Deadline::after(300s)));
    systems_.push_back(system);
    return {};
  }

  Status measure(const TrainModel& model, std::vector<PsMeasurement>& all) {
    const std::int64_t samples = samplesOf(model, options_);
    const std::string& directory =
        coordinator_.scratch().directoryFor(trainFileBytes(model, samples));
    const std::string path = fmt::format("{}/{}", directory, model.name);
    progress_.show(fmt::format("make the data of {}", model.name));
    COLLA_TRY(writeTrainFiles(model, samples, path));
    TrainRunnerOptions how;
    how.rounds = options_.rounds;
    how.seconds = options_.seconds;
    how.verifySteps = model.verifySteps;
    how.progress = [this](const std::string& line) { progress_.show(line); };
    for (const std::int64_t batch : batchesOf(model, options_)) {
      const TrainPoint point{
          .model = std::string(model.name), .samples = samples, .rate = model.rate, .path = path};
      COLLA_TRY_ASSIGN(const auto measured,
                       measureTraining(coordinator_, systems_, point, {batch}, how));
      for (const TrainMeasurement& one : measured) {
        COLLA_TRY_ASSIGN(const std::size_t server, serverMemory(one.system));
        all.push_back({one, server});
      }
    }
    removeTrainFiles(path);  // Agents hold them until they get the next ones.
    return {};
  }

  Result<std::size_t> serverMemory(const std::string& system) {
    COLLA_TRY_ASSIGN(const auto processes, coordinator_.memory(system));
    std::size_t most = 0;
    for (const ProcessMemory& process : processes) {
      if (isServer(process.name)) most = std::max(most, process.pssBytes);
    }
    return most;
  }

  const PsBenchOptions& options_;
  Coordinator& coordinator_;
  ProgressLine& progress_;
  std::vector<TrainSystem> systems_;
};

Result<Findings> run(const PsBenchOptions& options, Coordinator& coordinator) {
  warnIfBusy();
  ProgressLine progress;
  PushOptions push{.workers = options.workers,
                   .bytes = options.bytes,
                   .rounds = options.rounds,
                   .seconds = options.seconds,
                   .progress = [&](const std::string& line) { progress.show(line); }};
  std::vector<PsMeasurement> trained;
  std::vector<PushMeasurement> pushed;
  // Before libtorch's processes are there, which take memory.
  if (options.push) {
    COLLA_TRY(checkPushMemory(push));
    COLLA_TRY_ASSIGN(pushed, measurePush(coordinator, push));
  }
  if (options.train) {
    COLLA_TRY_ASSIGN(trained, Trainings(options, coordinator, progress).run());
  }
  return Findings{psTable(trained, pushed), psJson(trained, pushed)};
}

}  // namespace

Status check(const PsBenchOptions& options) {
  for (const std::string& name : options.models) {
    COLLA_TRY_ASSIGN(const TrainModel* const model, parseTrainModel(name));
    const std::int64_t samples = samplesOf(*model, options);
    for (const std::int64_t batch : batchesOf(*model, options)) {
      if (batch >= 2 && batch % 2 == 0 && samples % batch == 0) continue;
      return {StatusCode::kInvalidArgument,
              fmt::format("--batch {} must be even and divide the {} samples of {}", batch, samples,
                          name)};
    }
  }
  return {};
}

int benchPs(const PsBenchOptions& options) {
  return runBenchmark(options.jsonFile,
                      [&](Coordinator& coordinator) { return run(options, coordinator); });
}

}  // namespace colla::bench
