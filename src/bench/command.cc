#include "bench/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>

#include "bench/collectives.h"
#include "bench/hybrid_command.h"
#include "bench/ps_command.h"
#include "bench/train_command.h"
#include "bench/units.h"
#include "bench/words.h"

namespace colla::bench {
namespace {

constexpr int kExitUsage = 2;

// What was typed, before it is checked and turned into CollectivesOptions.
struct Typed {
  CollectivesOptions options;
  std::vector<std::string> operations = {"allreduce"};
  std::vector<std::string> bytes = {"1K", "64K", "4M", "32M", "100M"};
  std::vector<std::string> peers = {"gloo", "openmpi"};
  std::vector<std::string> buffers = {"shared", "private"};
  std::string net = "shm";
};

CollectivesOptions optionsOf(const Typed& typed) {
  CollectivesOptions options = typed.options;
  options.operations.clear();
  for (const std::string& word : distinct(typed.operations)) {
    options.operations.push_back(*parseOperation(word));
  }
  options.bytes.clear();
  for (const std::string& word : distinct(typed.bytes)) options.bytes.push_back(*parseBytes(word));
  options.peers = distinct(typed.peers);
  std::erase(options.peers, "none");
  options.buffers = distinct(typed.buffers);
  options.net = *parseNet(typed.net);
  return options;
}

// When the command is chosen, parsing leaves in `action` what carries it out.
void addCollectives(CLI::App& bench, std::function<int()>& action) {
  CLI::App* const app = bench.add_subcommand(
      "collectives",
      "Measures Colla's collectives and those of other systems side by side, interleaved in one "
      "run on this machine");
  app->footer(
      "The table's last columns say how many times as fast as a line's system Colla is.\n\n"
      "Examples:\n"
      "  colla bench collectives\n"
      "  colla bench collectives --np 4 --bytes 32M --ops allreduce,allgather --json out.json\n"
      "  colla bench collectives --net veth --bytes 32M\n");
  const auto typed = std::make_shared<Typed>();
  app->add_option("--np", typed->options.np, "Ranks")
      ->check(CLI::Range(2, 128))
      ->capture_default_str();
  app->add_option("--ops", typed->operations,
                  "Operations: allreduce, broadcast, reduce, reduce_scatter, allgather, alltoall, "
                  "barrier")
      ->delimiter(',')
      ->check(accepted(parseOperation))
      ->default_str("allreduce");
  app->add_option("--bytes", typed->bytes, "Sizes of the whole buffer (float32), as 1000, 64K, 4M")
      ->delimiter(',')
      ->check(accepted(parseBytes))
      ->default_str("1K,64K,4M,32M,100M");
  CLI::Option* const peers =
      app->add_option("--peers", typed->peers,
                      "Systems to compare with: gloo, openmpi, or none. Those that are named must "
                      "be installed; without this option what is missing is left out")
          ->delimiter(',')
          ->check(CLI::IsMember({"gloo", "openmpi", "none"}))
          ->default_str("gloo,openmpi");
  app->add_option("--buffers", typed->buffers,
                  "Colla's buffers: shared (a Bucket), private (any memory of the user's)")
      ->delimiter(',')
      ->check(CLI::IsMember({"shared", "private"}))
      ->default_str("shared,private");
  app->add_option("--net", typed->net,
                  "What joins the ranks: shm (memory of this host), loop (TCP on the loopback "
                  "interface), veth (TCP between two network namespaces; needs root)")
      ->check(accepted(parseNet))
      ->capture_default_str();
  app->add_option("--rounds", typed->options.rounds,
                  "Measurements of each system at each point; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--seconds", typed->options.seconds, "What one measurement should take")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  app->add_option("--json", typed->options.jsonFile, "Write the results to this file, too");
  app->callback([typed, peers, &action] {
    typed->options.peersRequired = peers->count() > 0;
    action = [options = optionsOf(*typed)] { return benchCollectives(options); };
  });
}

}  // namespace

int benchCommand(const std::vector<std::string>& arguments) {
  CLI::App app("Measures, and compares with other systems.", "colla bench");
  app.require_subcommand(1);
  std::function<int()> action;
  addCollectives(app, action);
  addTrain(app, action);
  addPs(app, action);
  addHybrid(app, action);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // As CLI11 wants them.
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    fmt::print(stderr, "colla bench: {} (see colla bench --help)\n", error.what());
    return kExitUsage;
  }
  return action();
}

}  // namespace colla::bench
