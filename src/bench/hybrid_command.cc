#include "bench/hybrid_command.h"

#include <filesystem>
#include <memory>

#include "bench/hybrid.h"
#include "bench/words.h"

namespace colla::bench {
namespace {

std::string thisProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::vector<std::string> systemNames() {
  std::vector<std::string> names;
  for (const HybridSystem& system : hybridSystems()) names.push_back(system.name);
  return names;
}

void addModel(CLI::App& app, HybridModel& model) {
  app.add_option("--vocabulary", model.vocabulary, "Words: rows of the model's tables")
      ->check(CLI::Range(100, 10'000'000))
      ->capture_default_str();
  app.add_option("--width", model.width, "Numbers of a word, in both tables")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--units", model.units, "Of the LSTM")
      ->check(CLI::Range(1, 16'384))
      ->capture_default_str();
  app.add_option("--candidates", model.candidates, "Of the sampled softmax")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--length", model.length, "Words of a sample")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--batch", model.batch, "Samples of a step, over all workers")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--workers", model.workers, "Each on a host of its own")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--transport", model.transport,
                 "tcp-plain, or tcp (encrypted), which costs processors' time on top of the bytes")
      ->check(CLI::IsMember({"tcp-plain", "tcp"}))
      ->capture_default_str();
}

}  // namespace

void addHybrid(CLI::App& bench, std::function<int()>& action) {
  CLI::App* const app = bench.add_subcommand(
      "hybrid",
      "Measures a language model with large tables under hybrid, ps-sync and allreduce, on hosts "
      "with limited links, which it makes of network namespaces; needs root");
  app->footer(
      "The columns hybrid/it and hybrid-shared/it say how many times as fast as a line's system "
      "hybrid is, with the server on a host of its own and on a worker's.\n\n"
      "Examples:\n"
      "  colla bench hybrid --json out.json\n"
      "  colla bench hybrid --systems hybrid,ps-sync --units 2048 --rounds 5\n");
  const auto options = std::make_shared<HybridBenchOptions>();
  options->systems = systemNames();
  addModel(*app, options->model);
  app->add_option("--systems", options->systems,
                  "What to compare: hybrid, ps-sync, allreduce-dense, allreduce-rows, "
                  "hybrid-shared, ps-sync-shared")
      ->delimiter(',')
      ->check(CLI::IsMember(systemNames()))
      ->default_str("all");
  app->add_option("--gigabits", options->gigabits,
                  "What each link carries in a second, in each direction")
      ->check(CLI::Range(0.001, 100.0))
      ->capture_default_str();
  app->add_option("--rounds", options->rounds, "Trainings with each system; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--steps", options->steps,
                  "Steps of each of these that count, behind three that warm up")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app->add_option("--checked", options->checked,
                  "Steps after which all systems must have the same bits: one more training each")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app->add_option("--json", options->jsonFile, "Write the results to this file, too");
  app->callback([options, &action] {
    options->program = thisProgram();
    const Status status = check(*options);
    if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
    action = [options] { return benchHybrid(*options); };
  });
}

}  // namespace colla::bench
