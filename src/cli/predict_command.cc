#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "checkpoint_argument.h"
#include "commands.h"
#include "model_arguments.h"
#include "models/predictions.h"

namespace colla::cli {
namespace {

// Closed by whoever opened it; standard output is not.
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

int predictCommand(const Arguments& arguments) {
  CLI::App app(
      "Says what a trained model makes of every sample of a data set:\n"
      "colla predict MODEL CHECKPOINT[@STEP|@best] [flags]",
      "colla predict");
  app.footer(
      "One line per sample, in the order of the data: classes with probabilities; captions of "
      "im2txt,\n"
      "searched with --beam; of lm the loss and perplexity of each sample. Flags that shape the "
      "model\n"
      "must be those that it was trained with.\n\n"
      "Examples:\n"
      "  colla predict mlp runs/mlp --data mnist:FOLDER --out classes.csv\n"
      "  colla predict im2txt runs/im2txt@5000 --beam 3 --format jsonl\n"
      "  colla predict resnet50v2 --weights w.safetensors --include-top false --pooling avg\n");
  ModelArguments model(app);
  models::PredictionOptions options;
  std::string part = "test";
  std::string format = "csv";
  std::string out;
  addCheckpoint(app, options.checkpoint, "what to predict with");
  app.add_option("--part", part, "of the data: train or test")
      ->check(CLI::IsMember({"train", "test"}));
  app.add_option("--format", format, "csv, or jsonl for one JSON object per line")
      ->check(CLI::IsMember({"csv", "jsonl"}));
  app.add_option("--out", out, "file to write; by default standard output")->option_text("FILE");
  app.add_option("--batch", options.batch, "samples at once (32)")->check(CLI::PositiveNumber);
  if (const auto exitCode = model.takeModel(arguments)) return *exitCode;
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  options.part = part == "train" ? Part::kTrain : Part::kTest;
  if (format == "jsonl") options.format = models::PredictionFormat::kJsonLines;
  if (options.checkpoint.empty() && !model.hasWeights()) {
    return usageError(app.get_name(),
                      "CHECKPOINT says which training's model predicts (see colla predict --help)");
  }
  Task task;
  if (const auto exitCode = model.makeTask(options.part, task)) return *exitCode;

  std::unique_ptr<std::FILE, CloseFile> file;
  if (!out.empty()) {
    file.reset(std::fopen(out.c_str(), "w"));
    if (!file) {
      fmt::print(stderr, "{}: cannot write {}: {}\n", app.get_name(), out, std::strerror(errno));
      return 1;
    }
  }
  const Status status = writePredictions(task, options, file ? file.get() : stdout);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", app.get_name(), status.message());
  return 1;
}

}  // namespace colla::cli
