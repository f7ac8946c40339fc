// segments_program MODEL STRATEGY DIRECTORY [changes]: trains 12 steps with 4 slices and saves each
// of them. With `changes` the workers change between steps: 3, 2, 4, then 1 of the job's four, and
// the one that records changes once.
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "colla/array_dataset.h"
#include "colla/error.h"
#include "colla/server.h"
#include "job/environment.h"
#include "models/task.h"
#include "train/run_plan.h"
#include "train/session.h"

namespace {

using colla::EpochPlan;

// Dropout and BatchNorm.
struct Net : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& image) {
    return out(dropout(torch::relu(norm(hidden(image.flatten(1))))));
  }
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(784, 256));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(256));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(256, 10));
};

colla::Task taskOf(const std::string& model) {
  colla::Task task;
  if (model == "mlp") {
    task.name = model;
    task.model = [] { return colla::classifier(std::make_shared<Net>()); };
    task.optimizer = colla::OptimizerOptions(colla::Adam{.lr = 1e-3});
    task.data = [](colla::Part part) { return colla::openDataset("synthetic:mnist:600", part); };
    return task;
  }
  const auto* const entry = colla::valueOrThrow(colla::models::findModel(model));
  colla::models::Values values = colla::models::defaults(entry->flags);
  const std::map<std::string, std::string> small =
      model == "lm"
          ? std::map<std::string, std::string>{{"embedding", "16"},
                                               {"units", "24"},
                                               {"projection", "12"},
                                               {"candidates", "50"}}
          : std::map<std::string, std::string>{
                {"length", "120"}, {"windows", "5,8"}, {"filters", "12"}, {"hidden", "30"}};
  for (const auto& [name, value] : small) values[name] = value;
  return colla::valueOrThrow(colla::models::makeTask(
      *entry, values, model == "lm" ? "synthetic:text:3000x400" : "synthetic:gpcr:300",
      colla::Part::kTrain));
}

// Process 0 leaves the third segment's first place to process 1, and is idle in the last one. Each
// of three processes records for a time, one of them (3) right after it was idle.
std::optional<EpochPlan> nextEpoch(std::int64_t step) {
  static const std::map<std::int64_t, EpochPlan> kPlans = {
      {0, {{0, 1, 2}, 0}}, {3, {{0, 1}, 1}}, {6, {{1, 0, 3, 2}, 2}}, {9, {{1}, 0}}};
  const auto plan = kPlans.find(step);
  return plan == kPlans.end() ? std::nullopt : std::optional(plan->second);
}

void run(const std::vector<std::string>& words) {
  const colla::Task task = taskOf(words[0]);
  colla::TrainOptions options;
  options.strategy = colla::valueOrThrow(colla::parseStrategy(words[1]));
  options.directory = words[2];
  options.slices = 4;
  options.threads = 1;
  options.batch = 24;
  options.steps = 12;
  options.saveEvery = 1;
  options.keep = 0;
  options.evaluate = false;
  options.quiet = true;
  const auto place = colla::valueOrThrow(
      colla::job::readEnvironment([](const char* name) { return std::getenv(name); }));
  const colla::train::RunPlan plan = colla::valueOrThrow(
      colla::train::makePlan(options, place, task, colla::train::Purpose::kTrain));
  const auto job =
      colla::valueOrThrow(colla::Job::init({.torchVersion = TORCH_VERSION,
                                            .settings = {{"slices", "4"}, {"threads", "1"}},
                                            .serves = true}));
  if (job->role() == colla::Role::kServer) return colla::throwIfError(colla::serve(*job));
  const std::string way = words.size() > 3 ? words[3] : "straight";
  colla::train::NextEpoch next;
  if (way == "changes") next = nextEpoch;
  if (way == "bad-plan") next = [](std::int64_t) { return EpochPlan{{0, 1}, 2}; };
  colla::train::Session(*job, task, plan, next).run();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) return 2;
  try {
    run(words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "segments_program: %s\n", error.what());
    return 1;
  }
}
