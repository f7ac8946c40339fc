#include "bench/ps_command.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "bench/ps.h"
#include "bench/units.h"
#include "bench/words.h"

namespace colla::bench {
namespace {

// What was typed, before it is turned into PsBenchOptions.
struct Typed {
  PsBenchOptions options;
  std::vector<std::string> parts = {"train", "push"};
  std::string bytes = "32M";
};

std::string agentProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "colla-bench-train";
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

void addPs(CLI::App& bench, std::function<int()>& action) {
  CLI::App* const app = bench.add_subcommand(
      "ps",
      "Measures training with a parameter server, Colla's beside MXNet's and TensorFlow's, and how "
      "many bytes pass through one server, in one run on this machine");
  app->footer(
      "The columns colla-ps-sync/it and colla-ps-async/it say how many times as fast as a line's "
      "system Colla's are.\n\n"
      "Examples:\n"
      "  colla bench ps --peers mxnet,tf --json out.json\n"
      "  colla bench ps --parts push --workers 1,4 --bytes 32M\n");
  const auto typed = std::make_shared<Typed>();
  PsBenchOptions& options = typed->options;
  app->add_option(
         "--parts", typed->parts,
         "What to measure: train (two workers and a server), push (bytes through a server)")
      ->delimiter(',')
      ->check(CLI::IsMember({"train", "push"}))
      ->default_str("train,push");
  app->add_option("--models", options.models, "Models: lr, softmax, snn, mlp")
      ->delimiter(',')
      ->check(CLI::IsMember({"lr", "softmax", "snn", "mlp"}))
      ->default_str("lr,mlp");
  app->add_option("--batch", options.batches,
                  "Samples of a step, over both workers (100, and 500 for lr, if not given)")
      ->delimiter(',')
      ->check(CLI::Range(2, 1'000'000));
  CLI::Option* const peers =
      app->add_option("--peers", options.peers,
                      "Systems to compare with: mxnet, tf, or none. Those that are named are "
                      "installed from PyPI into ~/.cache/colla/bench if they are not there yet; "
                      "without this option what is missing is left out")
          ->delimiter(',')
          ->check(CLI::IsMember({"mxnet", "tf", "none"}))
          ->default_str("mxnet,tf");
  app->add_option("--samples", options.samples,
                  "Size of the data sets (if not given: 10000 for lr, 60000 for the others)")
      ->check(CLI::Range(2, 10'000'000));
  app->add_option("--workers", options.workers, "How many workers push, one number after another")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->default_str("1,2,4,8");
  app->add_option("--bytes", typed->bytes, "What each of them pushes in a step, as 64K, 32M")
      ->check(accepted(parseBytes))
      ->capture_default_str();
  app->add_option("--rounds", options.rounds,
                  "Measurements of each system at each point; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--seconds", options.seconds, "What one measurement should take")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  app->add_option("--json", options.jsonFile, "Write the results to this file, too");
  app->callback([typed, peers, &action] {
    PsBenchOptions& chosen = typed->options;
    chosen.train = has(typed->parts, "train");
    chosen.push = has(typed->parts, "push");
    chosen.bytes = *parseBytes(typed->bytes);
    chosen.peersRequired = peers->count() > 0;
    chosen.models = distinct(chosen.models);
    chosen.batches = distinct(chosen.batches);
    chosen.workers = distinct(chosen.workers);
    chosen.peers = distinct(chosen.peers);
    std::erase(chosen.peers, "none");
    chosen.agentProgram = agentProgram();
    const Status status = check(chosen);
    if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
    action = [typed] { return benchPs(typed->options); };
  });
}

}  // namespace colla::bench
