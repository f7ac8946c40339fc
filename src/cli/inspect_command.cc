#include <fmt/format.h>

#include <cstdio>

#include "arguments.h"
#include "checkpoint/inspect.h"
#include "checkpoint/report.h"
#include "checkpoint/source.h"
#include "commands.h"

namespace colla::cli {

int inspectCommand(const Arguments& arguments) {
  CLI::App app(
      "Shows what is in a checkpoint: manifest, tensors, their types, shapes and norms:\n"
      "colla inspect A[@STEP] [--json]",
      "colla inspect");
  app.footer(
      "A is a directory of checkpoints, a run's directory (the newest step is taken unless one is\n"
      "named), the directory of one step, or a .safetensors file.\n");
  std::string name;
  bool asJson = false;
  app.add_option("A", name, "what to look at")->required();
  app.add_flag("--json", asJson, "print JSON");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;

  const auto source = checkpoint::Source::open(name);
  if (!source.ok()) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), source.status().message());
    return 1;
  }
  const auto inspection = checkpoint::inspect(*source);
  fmt::print("{}", asJson ? checkpoint::toJson(inspection) : checkpoint::table(inspection));
  return 0;
}

}  // namespace colla::cli
