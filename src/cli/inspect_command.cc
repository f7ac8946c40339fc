#include <fmt/format.h>

#include <cstdio>

#include "base/command_line.h"
#include "checkpoint/inspect.h"
#include "checkpoint/report.h"
#include "checkpoint/source.h"
#include "checkpoint_argument.h"
#include "commands.h"
#include "foreign/open.h"

namespace colla::cli {

int inspectCommand(const Arguments& arguments) {
  CLI::App app(
      "Shows what is in a checkpoint: manifest, tensors, their types, shapes and norms:\n"
      "colla inspect CHECKPOINT[@STEP] [flags]",
      "colla inspect");
  app.footer(
      "CHECKPOINT is a directory of checkpoints, a run's directory (the newest step is taken "
      "unless\n"
      "one is named), the directory of one step, a .safetensors file, a checkpoint of TensorFlow\n"
      "(model.ckpt-100) or a weight file of Keras (.weights.h5, .h5, .keras).\n");
  std::string name;
  std::string json;
  addCheckpoint(app, name, "what to look at")->required();
  addJsonFlag(app, json, "the same as JSON");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;

  const auto source = foreign::open(name);
  if (!source.ok()) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), source.status().message());
    return 1;
  }
  const auto inspection = checkpoint::inspect(*source);
  if (json != "-") fmt::print("{}", checkpoint::table(inspection));
  const Status written = writeJson(json, checkpoint::toJson(inspection));
  if (written.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", app.get_name(), written.message());
  return 1;
}

}  // namespace colla::cli
