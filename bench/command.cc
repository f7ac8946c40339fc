#include "bench/command.h"

#include "base/command_line.h"
#include "bench/benchmark.h"

namespace colla::bench {

int benchCommand(const std::vector<std::string>& arguments) {
  CLI::App app("Measures, and compares with other systems.", "colla bench");
  app.require_subcommand(1);
  Action action;
  addCollectives(app, action);
  addTrain(app, action);
  addPs(app, action);
  addHybrid(app, action);
  addNetwork(app, action);
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  return action();
}

}  // namespace colla::bench
