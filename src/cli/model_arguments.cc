#include "model_arguments.h"

#include <fmt/format.h>

#include <cstdio>

namespace colla::cli {
namespace {

// What --help calls the value of a model's flag, which the default shows.
std::string wordFor(const models::Flag& flag) {
  const bool digits = flag.fallback.find_first_not_of("0123456789") == std::string_view::npos;
  if (digits && !flag.fallback.empty()) return "N";
  const bool real = flag.fallback.find_first_not_of("0123456789.e-") == std::string_view::npos;
  if (real && !flag.fallback.empty()) return "NUMBER";
  if (flag.fallback == "true" || flag.fallback == "false") return "true|false";
  return flag.name == "weights" ? "FILE" : "NAME";
}

}  // namespace

ModelArguments::ModelArguments(CLI::App& app) : app_(app) {
  app.add_option("MODEL", name_, "which model: `colla models` lists them")->required();
  app.add_option(
         "--data", data_,
         "mnist:, cifar10:, cifar100:, images:, tfrecord:, captions:, proteins:, libsvm: or "
         "text: and a folder or file, a folder alone, or synthetic:mnist and the like, as "
         "docs/data.md says; by default what `colla models` says")
      ->option_text("NAME");
}

Task ModelArguments::defaults() const {
  Task task;
  if (entry_ == nullptr) return task;
  task.optimizer = entry_->optimizer;
  task.batch = entry_->batch;
  task.schedule = entry_->schedule;
  task.clipNorm = entry_->clipNorm;
  return task;
}

std::optional<int> ModelArguments::takeModel(const Arguments& arguments, std::string_view hint) {
  // The model comes first, so that nothing has to be known of flags yet.
  if (arguments.empty() || arguments.front().starts_with('-')) return std::nullopt;
  const auto entry = models::findModel(arguments.front());
  if (!entry.ok()) {
    return usageError(app_.get_name(), fmt::format("{}{}", entry.status().message(), hint));
  }
  entry_ = *entry;
  values_ = models::defaults(entry_->flags);
  app_.get_option("--data")->default_str(std::string(entry_->data));
  for (const models::Flag& flag : entry_->flags) {
    app_.add_option(fmt::format("--{}", flag.name), values_.find(flag.name)->second,
                    std::string(flag.help))
        ->option_text(wordFor(flag))
        ->default_str(std::string(flag.fallback))
        ->group(fmt::format("Model {}", entry_->name));
  }
  return std::nullopt;
}

bool ModelArguments::hasWeights() const {
  const auto weights = values_.find("weights");
  return weights != values_.end() && weights->second != "none";
}

std::optional<int> ModelArguments::makeTrainingTask(Part part, Task& task) const {
  std::string warning;
  if (entry_ != nullptr) {
    auto advice = models::adviceOf(*entry_, values_);
    if (!advice.ok()) return usageError(app_.get_name(), advice.status().message());
    warning = *std::move(advice);
  }
  const auto exitCode = makeTask(part, task);
  task.warning = std::move(warning);
  return exitCode;
}

std::optional<int> ModelArguments::makeTask(Part part, Task& task) const {
  if (entry_ == nullptr) {
    return usageError(app_.get_name(), fmt::format("MODEL comes first: {} MODEL [flags] (see {} "
                                                   "--help)",
                                                   app_.get_name(), app_.get_name()));
  }
  auto made =
      models::makeTask(*entry_, values_, data_.empty() ? std::string(entry_->data) : data_, part);
  if (made.ok()) {
    task = *std::move(made);
    return std::nullopt;
  }
  fmt::print(stderr, "{}: {}\n", app_.get_name(), made.status().message());
  return made.status().code() == StatusCode::kInvalidArgument ? kExitUsage : 1;
}

}  // namespace colla::cli
