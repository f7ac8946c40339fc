// What `colla train` and `colla eval` have in common: MODEL, its own flags and --data.
#pragma once

#include <string>
#include <string_view>

#include "base/command_line.h"
#include "models/catalog.h"
#include "models/task.h"

namespace colla::cli {

class ModelArguments {
 public:
  // Adds MODEL, --data and, once takeModel() has found the model, its flags to `app`, which must
  // outlive it; this must stay where it is.
  explicit ModelArguments(CLI::App& app);
  ModelArguments(const ModelArguments&) = delete;
  ModelArguments& operator=(const ModelArguments&) = delete;

  // Before parse(): a model's flags are known once the model is. An exit code for an unknown one;
  // `hint` is the end of that line.
  std::optional<int> takeModel(const Arguments& arguments, std::string_view hint = "");
  // After takeModel(): what the model is trained with unless flags say otherwise, for --help.
  Task defaults() const;
  bool hasModel() const { return entry_ != nullptr; }
  // After parse(): the task, with `part` of its data open. An exit code where that fails, after the
  // one line that says why.
  std::optional<int> makeTask(Part part, Task& task) const;
  // The same for what needs a loss: a model that has none is refused.
  std::optional<int> makeTrainingTask(Part part, Task& task) const;
  // After parse(): the model begins with weights from a file.
  bool hasWeights() const;

 private:
  CLI::App& app_;
  std::string name_;
  std::string data_;
  const models::Entry* entry_ = nullptr;
  models::Values values_;
};

}  // namespace colla::cli
