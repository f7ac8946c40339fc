#include "commands.h"
#include "model_arguments.h"
#include "train/flags.h"
#include "train/main.h"

namespace colla::cli {

int trainCommand(const Arguments& arguments) {
  CLI::App app(
      "Trains a model, with one worker or with many:\n"
      "colla train MODEL [flags]",
      "colla train");
  app.footer(
      "With several workers the command starts them itself. For a given seed, number of slices "
      "and\n"
      "threads, every number of workers gives the same bits under\n" +
      strategyNames([](const StrategyTraits& traits) { return traits.sameBits; }) +
      ",\n"
      "with their default options. Exit code: 0; 2 for a wrong command line, 1 for other "
      "failures,\n"
      "130 after Ctrl-C (which saves first).\n\n"
      "Examples:\n"
      "  colla train mlp --epochs 5 --data mnist:FOLDER --checkpoint-dir runs/mlp\n"
      "  colla train mlp --np 2 --slices 4 --steps 1000 --optimizer adam --lr 1e-3\n"
      "  colla train lr --strategy mirrored --np 2 --data synthetic:lr:5000x200 --json steps.json\n"
      "  colla train mlp --epochs 10 --checkpoint-dir runs/mlp --resume\n"
      "  colla train mlp --help                  with the flags of this model\n");
  ModelArguments model(app);
  if (const auto exitCode = model.takeModel(arguments)) return *exitCode;
  const train::Flags flags(app);
  if (model.hasModel()) train::showDefaults(app, model.defaults());
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  Task task;
  if (const auto exitCode = model.makeTrainingTask(Part::kTrain, task)) return *exitCode;
  // The model is one of Colla's own, and may be large: nothing about it is to be found out.
  return train::runProgram(app.get_name(), std::move(task), flags, /*checksModel=*/false);
}

}  // namespace colla::cli
