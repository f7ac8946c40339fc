#include <fmt/format.h>

#include "checkpoint/source.h"
#include "checkpoint_argument.h"
#include "commands.h"
#include "job/settings.h"
#include "model_arguments.h"
#include "train/main.h"

namespace colla::cli {
namespace {

constexpr char kPrograms[] =
    "; the program that trained a model of its own evaluates it: PROGRAM --eval --checkpoint-dir "
    "DIR";

}  // namespace

int evalCommand(const Arguments& arguments) {
  CLI::App app(
      "Evaluates a checkpoint on the test part of the data:\n"
      "colla eval MODEL CHECKPOINT[@STEP|@best] [flags]",
      "colla eval");
  app.footer(
      "Slices, threads and batch are the checkpoint's unless flags say others; then the numbers "
      "are\n"
      "those that the training printed, in every bit, for every number of workers.\n\n"
      "Examples:\n"
      "  colla eval mlp runs/mlp\n"
      "  colla eval mlp runs/mlp@600 --data mnist:FOLDER --json\n"
      "  colla eval mlp runs/mlp --np 2          of a run with two slices or more\n");
  ModelArguments model(app);
  TrainOptions options;
  std::string strategy;
  std::string asJson;
  addCheckpoint(app, options.directory, "what to evaluate")->required();
  app.add_option("--strategy", strategy, strategyNames([](const StrategyTraits& traits) {
                   return !traits.servers && traits.sameBits;
                 }))
      ->option_text("NAME");
  app.add_option("-n,--np", options.workers, "workers; also -np N");
  app.add_option("--batch,--batch-size", options.batch, "samples at once, over all workers");
  addJsonFlag(app, asJson, "the same as JSON");
  const SettingFlags settings(app, job::settings());
  if (const auto exitCode = model.takeModel(arguments, kPrograms)) return *exitCode;
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  const auto named = checkpoint::splitStep(options.directory);
  if (!named.ok()) return usageError(app.get_name(), named.status().message());
  options.directory = named->path;
  options.resumeStep = named->step;
  if (!strategy.empty()) {
    const auto parsed = parseStrategy(strategy);
    if (!parsed.ok()) return usageError(app.get_name(), parsed.status().message());
    options.strategy = *parsed;
  }
  const auto config = settings.load();
  if (!config.ok()) return usageError(app.get_name(), config.status().message());
  Task task;
  if (const auto exitCode = model.makeTrainingTask(Part::kTest, task)) return *exitCode;
  return train::runEvaluation(app.get_name(), std::move(task), options, *config, asJson);
}

}  // namespace colla::cli
