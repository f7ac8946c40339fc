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
      "two workers of Colla are.\n\n"
      "Examples:\n"
      "  colla bench train\n"
      "  colla bench train --models mlp,lr --batch 100 --json out.json\n");
  const auto options = std::make_shared<TrainBenchOptions>();
  app->add_option("--models", options->models,
                  "Models: lr, softmax, snn, mlp, deepfam (its published size), "
                  "deepfam-none (without the convolutions' batch normalisation)")
      ->delimiter(',')
      ->check(accepted(parseTrainModel))
      ->default_str("lr,softmax,snn,mlp");
  app->add_option("--batch", options->batches,
                  "Samples of a step, over all workers (100 and 500; 32 for deepfam, if not given)")
      ->delimiter(',')
      ->check(CLI::Range(2, 1'000'000));
  CLI::Option* const peers =
      app->add_option("--peers", options->peers,
                      "Systems to compare with: torch (PyTorch alone), ddp (two workers under "
                      "DistributedDataParallel over Gloo), or none. Those that are named must be "
                      "installed; without this option what is missing is left out")
          ->delimiter(',')
          ->check(CLI::IsMember({"torch", "ddp", "none"}))
          ->default_str("torch,ddp");
  app->add_option(
         "--samples", options->samples,
         "Size of the data sets (if not given: 10000 for lr, 640 for deepfam, 60000 for the "
         "others)")
      ->check(CLI::Range(2, 10'000'000));
  app->add_option("--rounds", options->rounds,
                  "Measurements of each system at each point; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "What one measurement should take")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  app->add_option("--json", options->jsonFile, "Write the results to this file, too");
  app->callback([options, peers, &action] {
    options->peersRequired = peers->count() > 0;
    options->models = distinct(options->models);
    options->batches = distinct(options->batches);
    options->peers = distinct(options->peers);
    std::erase(options->peers, "none");
    options->agentProgram = agentProgram();
    const Status status = check(*options);
    if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
    action = [options] { return benchTrain(*options); };
  });
}

}  // namespace colla::bench
