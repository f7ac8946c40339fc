// `colla bench train`: one and two workers of Colla beside PyTorch alone and under
// DistributedDataParallel.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/epochs.h"
#include "bench/machine.h"
#include "bench/trainings.h"
#include "colla/dataset.h"
#include "data/summary.h"

namespace colla::bench {
namespace {

// The limit of two workers stands last.
const std::vector<TrainSystem> kCollaSystems = {
    {"colla-1", 1}, {"colla-2", 2}, {"colla-2x1", 2, true}};

int workersOf(const std::string& peer) { return peer == "ddp" ? 2 : 1; }

class TrainBench : public TrainingsBench {
 public:
  using TrainingsBench::TrainingsBench;

  Result<Records> run() {
    COLLA_TRY(checkTorchProgram(worker_));
    COLLA_TRY(checkRoom());
    for (const std::string& peer : common_.peers) {
      COLLA_TRY_ASSIGN(const bool runs, startPeer(peer, [&] { return peerSystem(peer); }));
      if (runs) systems_.push_back({peer, workersOf(peer)});
    }
    for (const TrainSystem& system : kCollaSystems) {
      COLLA_TRY(startColla(system, "allreduce", 0));
    }
    Records records;
    Records readers;
    for (const std::string& name : options_.models) {
      COLLA_TRY_ASSIGN(const BenchModel* const model, parseModel(name));
      COLLA_TRY(measureModel(*model, records));
      if (model->data == TrainData::kImages) COLLA_TRY(readImages(*model, readers));
    }
    records.insert(records.end(), readers.begin(), readers.end());
    return records;
  }

 private:
  Result<SystemSpec> peerSystem(const std::string& peer) {
    COLLA_TRY_ASSIGN(const std::string python, peerPython(coordinator_, "torch", false, {}));
    return scriptSystem({coordinator_, workersOf(peer)}, peer, python, "torch_agent.py");
  }

  // Systems train on images that are ready. In a training they come as CIFAR's, and a thread that
  // reads ahead makes them larger.
  Status readImages(const BenchModel& model, Records& readers) {
    progress_.show(fmt::format("read the images of {}", model.name));
    ReadOptions options;
    options.height = model.input[1];
    options.width = model.input[2];
    COLLA_TRY_ASSIGN(const auto images, openDataset("synthetic:cifar10", Part::kTrain, options));
    const std::chrono::duration<double> time(common_.seconds);
    COLLA_TRY_ASSIGN(
        const double speed,
        data::readingSpeed(*images, std::chrono::duration_cast<std::chrono::milliseconds>(time)));
    readers.push_back({{"system", "reader"}, {"model", model.name}, {"samples_per_s", speed}});
    return {};
  }

  // All workers are there at the same time and share one copy of the data, which the worker that
  // writes the files has a second time.
  Status checkRoom() const {
    std::size_t workers = 0;
    for (const TrainSystem& system : kCollaSystems) workers += system.workers;
    for (const std::string& peer : common_.peers) workers += workersOf(peer);
    std::size_t need = 0;
    for (const std::string& name : options_.models) {
      COLLA_TRY_ASSIGN(const BenchModel* const model, parseModel(name));
      const std::size_t data = model->fileBytes(options_.samplesOf(*model));
      need = std::max(need, 2 * data + workers * model->workerBytes);
    }
    return checkMemory(need, fmt::format("{} workers and their data need", workers),
                       "fewer --samples or --peers");
  }
};

struct TrainParts {
  std::vector<std::string> parts = {"train"};
  TrainingOptions trainings{.models = {"lr", "softmax", "snn", "mlp"}};
};

Result<Findings> runTrain(const TrainParts& options, Coordinator& coordinator) {
  warnIfBusy();
  Findings findings;
  for (const std::string& part : options.parts) {
    Records records;
    if (part == "train") {
      COLLA_TRY_ASSIGN(records, TrainBench(options.trainings, coordinator).run());
      const std::vector<Column> last = {numberColumn("exposed", "exposed_seconds", durationText),
                                        numberColumn("PSS MB", "pss_bytes", megabytesText)};
      findings.table += trainingsTable(records, {"colla-1", "colla-2"}, last);
    } else {
      COLLA_TRY_ASSIGN(records, measureEpochs(coordinator, options.trainings.common));
      findings.table += epochsTable(records);
    }
    findings.records.insert(findings.records.end(), records.begin(), records.end());
  }
  return findings;
}

}  // namespace

void addTrain(CLI::App& bench, Action& action) {
  CLI::App* const app = bench.add_subcommand(
      "train",
      "Measures training with Colla and with PyTorch side by side, interleaved in one run on this "
      "machine, one thread per worker");
  app->footer(
      "The columns colla-1/it and colla-2/it say how many times as fast as a line's system one and "
      "two workers of Colla are, in samples per second.\n\n"
      "Examples:\n"
      "  colla bench train\n"
      "  colla bench train --models mlp,lr --batch 100 --json out.json\n"
      "  colla bench train --models resnet50v2,lm\n"
      "  colla bench train --parts epochs\n");
  const auto chosen = std::make_shared<TrainParts>();
  TrainingOptions* const options = &chosen->trainings;
  options->common.peers = {"torch", "ddp"};
  app->add_option("--parts", chosen->parts,
                  "What to measure: train, epochs (how long a training with 4 workers stands still "
                  "when its workers change)")
      ->delimiter(',')
      ->check(CLI::IsMember({"train", "epochs"}))
      ->default_str("train");
  app->add_option("--models", options->models,
                  "Models: lr, softmax, snn, mlp, and by name alone, because they take minutes and "
                  "gigabytes: deepfam (its published size), deepfam-none (without the "
                  "convolutions' batch normalisation), resnet50v2 and inceptionv3 (images of "
                  "128x128), lm (a vocabulary of 200,000 with sparse gradients)")
      ->option_text("NAME")
      ->delimiter(',')
      ->check(accepted(parseModel))
      ->default_str("lr,softmax,snn,mlp");
  const auto global = std::make_shared<std::vector<std::int64_t>>();
  const auto perWorker = std::make_shared<std::vector<std::int64_t>>();
  CLI::Option* const batch =
      app->add_option("--batch", *global,
                      "Samples of a step, over all workers (if not given: 100 and 500; 32 for "
                      "deepfam)")
          ->delimiter(',')
          ->check(CLI::Range(2, 1'000'000));
  app->add_option("--batch-per-worker", *perWorker,
                  "The same for every worker, so that two have twice as many (if not given: 8 for "
                  "resnet50v2 and inceptionv3, 16 for lm)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000))
      ->excludes(batch);
  addPeers(*app, options->common,
           "Systems to compare with: torch (PyTorch alone), ddp (two workers under "
           "DistributedDataParallel over Gloo), or none. Those that are named must be installed");
  app->add_option("--samples", options->samples,
                  "Size of the data sets (if not given: 10000 for lr, 60000 for softmax, snn and "
                  "mlp, 640 for deepfam, 160 for resnet50v2 and inceptionv3, 6400 for lm)")
      ->check(CLI::Range(2, 10'000'000));
  addRunFlags(*app, options->common);
  app->callback([chosen, options, global, perWorker, &action] {
    chosen->parts = distinct(chosen->parts);
    options->models = distinct(options->models);
    for (const std::int64_t count : distinct(*global)) options->batches.push_back({count});
    for (const std::int64_t count : distinct(*perWorker)) options->batches.push_back({count, true});
    throwIfBad(checkBatches(*options));
    action = [chosen] {
      return runBenchmark(chosen->trainings.common.jsonFile,
                          [&](Coordinator& coordinator) { return runTrain(*chosen, coordinator); });
    };
  });
}

}  // namespace colla::bench
