#include "bench/train_command.h"

#include <filesystem>
#include <memory>

#include "bench/train.h"
#include "bench/train_model.h"
#include "bench/words.h"

namespace colla::bench {
namespace {

// Installed and built next to this program.
std::string agentProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "colla-bench-train";
}

}  // namespace

void addTrain(CLI::App& bench, std::function<int()>& action) {
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
      "  colla bench train --models resnet50v2,lm\n");
  const auto options = std::make_shared<TrainBenchOptions>();
  app->add_option("--models", options->models,
                  "Models: lr, softmax, snn, mlp, and by name alone, because they take minutes and "
                  "gigabytes: deepfam (its published size), deepfam-none (without the "
                  "convolutions' batch normalisation), resnet50v2 and inceptionv3 (images of "
                  "128x128), lm (a vocabulary of 200,000 with sparse gradients)")
      ->delimiter(',')
      ->check(accepted(parseTrainModel))
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
  CLI::Option* const peers =
      app->add_option("--peers", options->peers,
                      "Systems to compare with: torch (PyTorch alone), ddp (two workers under "
                      "DistributedDataParallel over Gloo), or none. Those that are named must be "
                      "installed; without this option what is missing is left out")
          ->delimiter(',')
          ->check(CLI::IsMember({"torch", "ddp", "none"}))
          ->default_str("torch,ddp");
  app->add_option("--samples", options->samples,
                  "Size of the data sets (if not given: 10000 for lr, 60000 for softmax, snn and "
                  "mlp, 640 for deepfam, 160 for resnet50v2 and inceptionv3, 6400 for lm)")
      ->check(CLI::Range(2, 10'000'000));
  app->add_option("--rounds", options->rounds,
                  "Measurements of each system at each point; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "What one measurement should take")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  app->add_option("--json", options->jsonFile, "Write the results to this file, too");
  app->callback([options, global, perWorker, peers, &action] {
    options->peersRequired = peers->count() > 0;
    options->models = distinct(options->models);
    for (const std::int64_t count : distinct(*global)) options->batches.push_back({count});
    for (const std::int64_t count : distinct(*perWorker)) options->batches.push_back({count, true});
    options->peers = distinct(options->peers);
    std::erase(options->peers, "none");
    options->agentProgram = agentProgram();
    const Status status = check(*options);
    if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
    action = [options] { return benchTrain(*options); };
  });
}

}  // namespace colla::bench
