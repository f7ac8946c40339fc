#include <fmt/format.h>

#include <cstdio>

#include "base/command_line.h"
#include "checkpoint/export.h"
#include "checkpoint/source.h"
#include "checkpoint_argument.h"
#include "commands.h"

namespace colla::cli {

int exportCommand(const Arguments& arguments) {
  CLI::App app(
      "Writes the model of a checkpoint, parameters and buffers, as one .safetensors file:\n"
      "colla export CHECKPOINT[@STEP] --out FILE.safetensors",
      "colla export");
  app.footer(
      "CHECKPOINT is a directory of checkpoints, a run's directory (the newest step is taken "
      "unless\n"
      "one is named) or the directory of one step. Names are those of the module, as PyTorch has\n"
      "them; Colla reads such a file back with --weights.\n\n"
      "Examples:\n"
      "  colla export runs/resnet --out resnet50v2.safetensors\n"
      "  python3 -c 'from safetensors.torch import load_file; "
      "print(load_file(\"m.safetensors\"))'\n");
  std::string name;
  std::string out;
  addCheckpoint(app, name, "what to export")->required();
  app.add_option("--out", out, "the file to write")->option_text("FILE")->required();
  if (const auto exitCode = parse(app, arguments)) return *exitCode;

  const auto fail = [&](const Status& status) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), status.message());
    return 1;
  };
  const auto source = checkpoint::Source::open(name);
  if (!source.ok()) return fail(source.status());
  if (source->checkpoint() == nullptr) {
    return usageError(app.get_name(), fmt::format("{} is a single file, not a checkpoint", name));
  }
  const auto exported = checkpoint::exportModel(*source->checkpoint(), out);
  if (!exported.ok()) return fail(exported.status());
  fmt::print("{}: {} parameters and {} buffers of {}, {:.1f} MB\n", out, exported->parameters,
             exported->buffers, source->path(), static_cast<double>(exported->bytes) / 1e6);
  return 0;
}

}  // namespace colla::cli
