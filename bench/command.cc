#include "bench/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/benchmark.h"

namespace colla::bench {

int benchCommand(const std::vector<std::string>& arguments) {
  constexpr int kExitUsage = 2;
  CLI::App app("Measures, and compares with other systems.", "colla bench");
  app.require_subcommand(1);
  Action action;
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
