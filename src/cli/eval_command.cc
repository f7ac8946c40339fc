#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "checkpoint/source.h"
#include "commands.h"
#include "job/settings.h"
#include "model_arguments.h"
#include "train/main.h"

namespace colla::cli {
namespace {

std::string line(const Evaluation& evaluation) {
  std::string text = fmt::format("step {} - {} samples - loss: {:.4f}", evaluation.step,
                                 evaluation.samples, evaluation.loss);
  for (std::size_t i = 0; i < evaluation.names.size(); ++i) {
    text += fmt::format(" - {}: {:.4f}", evaluation.names[i], evaluation.metrics[i]);
  }
  return text;
}

std::string json(const Evaluation& evaluation) {
  nlohmann::ordered_json metrics = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < evaluation.names.size(); ++i) {
    metrics[evaluation.names[i]] = evaluation.metrics[i];
  }
  return nlohmann::ordered_json{{"step", evaluation.step},
                                {"samples", evaluation.samples},
                                {"loss", evaluation.loss},
                                {"metrics", metrics}}
      .dump();
}

}  // namespace

int evalCommand(const Arguments& arguments) {
  CLI::App app(
      "Evaluates a checkpoint on the test part of the data:\n"
      "colla eval MODEL --checkpoint-dir DIR[@STEP] [flags]",
      "colla eval");
  app.footer(
      "Slices, threads and batch are the checkpoint's unless flags say others; then the numbers "
      "are\n"
      "those that the training printed, in every bit, for every strategy and number of workers.\n\n"
      "Examples:\n"
      "  colla eval mlp --checkpoint-dir runs/mlp\n"
      "  colla eval mlp --checkpoint-dir runs/mlp@600 --data mnist:FOLDER --json\n"
      "  colla eval mlp --checkpoint-dir runs/mlp --np 2\n");
  ModelArguments model(app);
  TrainOptions options;
  std::string strategy;
  bool asJson = false;
  app.add_option("--checkpoint-dir,--run-dir", options.directory,
                 "directory of the run; the newest checkpoint, or that of @STEP")
      ->required();
  app.add_option("--strategy", strategy, strategyNames([](const StrategyTraits& traits) {
                   return !traits.servers && traits.sameBits;
                 }));
  app.add_option("-n,--np", options.workers, "workers; also -np N");
  app.add_option("--batch,--batch-size", options.batch, "samples at once, over all workers");
  app.add_flag("--json", asJson, "print JSON");
  const SettingFlags settings(app, job::settings());
  if (const auto exitCode = model.takeModel(arguments)) return *exitCode;
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
  return train::runEvaluation(app.get_name(), std::move(task), options, *config,
                              [&](const Evaluation& evaluation) {
                                fmt::print("{}\n", asJson ? json(evaluation) : line(evaluation));
                              });
}

}  // namespace colla::cli
