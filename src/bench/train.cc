#include "bench/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "bench/benchmark.h"
#include "bench/machine.h"
#include "bench/train_files.h"
#include "bench/train_model.h"
#include "bench/train_runner.h"
#include "bench/train_systems.h"
#include "colla/dataset.h"
#include "data/summary.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

std::int64_t samplesOf(const TrainModel& model, const TrainBenchOptions& options) {
  return options.samples > 0 ? options.samples : model.samples;
}

const std::vector<BatchSize>& batchesOf(const TrainModel& model, const TrainBenchOptions& options) {
  return options.batches.empty() ? model.batches : options.batches;
}

// The run of one benchmark.
class Bench {
 public:
  Bench(const TrainBenchOptions& options, Coordinator& coordinator)
      : options_(options), coordinator_(coordinator) {}

  Result<Findings> run() {
    warnIfBusy();
    if (access(options_.agentProgram.c_str(), X_OK) != 0) {
      return {StatusCode::kUnsupported,
              fmt::format("there is no {}: this colla was built without libtorch (COLLA_TORCH=OFF)",
                          options_.agentProgram)};
    }
    COLLA_TRY(checkMemory());
    for (const std::string& peer : options_.peers) COLLA_TRY(startPeer(peer));
    for (const TrainSystem& system : collaTrainSystems()) {
      COLLA_TRY(start(system, startColla(coordinator_, system, options_.agentProgram)));
    }
    std::vector<TrainMeasurement> all;
    for (const std::string& name : options_.models) {
      COLLA_TRY_ASSIGN(const TrainModel* const model, parseTrainModel(name));
      COLLA_TRY(measure(*model, all));
      if (model->data == TrainData::kImages) COLLA_TRY(readImages(*model));
    }
    return Findings{trainTable(all, readers_), trainJson(all, readers_)};
  }

 private:
  Status measure(const TrainModel& model, std::vector<TrainMeasurement>& all) {
    const std::int64_t samples = samplesOf(model, options_);
    const std::string path = fmt::format(
        "{}/{}", coordinator_.scratch().directoryFor(trainFileBytes(model, samples)), model.name);
    progress_.show(fmt::format("make the data of {}", model.name));
    COLLA_TRY(writeTrainFiles(model, samples, path));
    TrainRunnerOptions how;
    how.rounds = options_.rounds;
    how.seconds = options_.seconds;
    how.progress = [this](const std::string& line) { progress_.show(line); };
    how.verifySteps = model.verifySteps;
    how.batchStatistics = model.batchStatistics;
    TrainPoint point;
    point.model = model.name;
    point.samples = samples;
    point.rate = model.rate;
    point.path = path;
    for (const BatchSize batch : batchesOf(model, options_)) {
      COLLA_TRY_ASSIGN(const auto measured,
                       measureTraining(coordinator_, systems_, point, batch, how));
      all.insert(all.end(), measured.begin(), measured.end());
    }
    removeTrainFiles(path);  // Agents hold them until they get the next ones.
    return {};
  }

  // Systems train on images that are ready; a training's own come as CIFAR's, and are made larger
  // by a thread that reads ahead.
  Status readImages(const TrainModel& model) {
    progress_.show(fmt::format("read the images of {}", model.name));
    ReadOptions options;
    options.height = model.input[1];
    options.width = model.input[2];
    COLLA_TRY_ASSIGN(const auto images, openDataset("synthetic:cifar10", Part::kTrain, options));
    const std::chrono::duration<double> time(options_.seconds);
    COLLA_TRY_ASSIGN(
        const double speed,
        data::readingSpeed(*images, std::chrono::duration_cast<std::chrono::milliseconds>(time)));
    readers_.push_back({std::string(model.name), speed});
    return {};
  }

  Status startPeer(const std::string& peer) {
    const TrainSystem system = peerTrainSystem(peer);
    const auto spec = startTorch(coordinator_, system);
    const Status status = spec.ok() ? start(system, *spec) : spec.status();
    if (status.ok()) return {};
    if (options_.peersRequired || coordinator_.signal() != 0) return status.withContext(peer);
    progress_.clear();
    fmt::print(stderr, "colla bench: {} is left out: {}\n", peer, status.message());
    return {};
  }

  Status start(const TrainSystem& system, const SystemSpec& spec) {
    progress_.show("start " + system.name);
    COLLA_TRY(coordinator_.start(spec, Deadline::after(120s)));
    systems_.push_back(system);
    return {};
  }

  // All workers are there at the same time and share one copy of the data, which is made from
  // another one.
  Status checkMemory() const {
    std::size_t workers = 0;
    for (const TrainSystem& system : collaTrainSystems()) workers += system.workers;
    for (const std::string& peer : options_.peers) workers += peerTrainSystem(peer).workers;
    std::size_t need = 0;
    for (const std::string& name : options_.models) {
      COLLA_TRY_ASSIGN(const TrainModel* const model, parseTrainModel(name));
      const std::size_t data = trainFileBytes(*model, samplesOf(*model, options_));
      need = std::max(need, 2 * data + workers * model->workerBytes);
    }
    const std::size_t have = availableMemory();
    if (need <= have) return {};
    return {StatusCode::kNoMemory,
            fmt::format("{} workers and their data need about {:.1f} GB, and only {:.1f} GB are "
                        "free: choose fewer --samples or --peers",
                        workers, static_cast<double>(need) / 1e9, static_cast<double>(have) / 1e9)};
  }

  const TrainBenchOptions& options_;
  Coordinator& coordinator_;
  std::vector<TrainSystem> systems_;
  std::vector<ReaderMeasurement> readers_;
  ProgressLine progress_;
};

}  // namespace

Status check(const TrainBenchOptions& options) {
  for (const std::string& name : options.models) {
    COLLA_TRY_ASSIGN(const TrainModel* const model, parseTrainModel(name));
    const std::int64_t samples = samplesOf(*model, options);
    for (const BatchSize batch : batchesOf(*model, options)) {
      const std::int64_t both = batch.ofAll(2);
      if (both >= 2 && both % 2 == 0 && samples % both == 0) continue;
      return {StatusCode::kInvalidArgument,
              batch.perWorker
                  ? fmt::format("--batch-per-worker {}, twice, must divide the {} samples of {}",
                                batch.count, samples, name)
                  : fmt::format("--batch {} must be even and divide the {} samples of {}",
                                batch.count, samples, name)};
    }
  }
  return {};
}

int benchTrain(const TrainBenchOptions& options) {
  return runBenchmark(options.jsonFile,
                      [&](Coordinator& coordinator) { return Bench(options, coordinator).run(); });
}

}  // namespace colla::bench
