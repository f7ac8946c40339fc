#include "bench/worker/epochs.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "base/metrics.h"
#include "colla/collectives.h"
#include "colla/server.h"
#include "colla/trainer.h"
#include "job/environment.h"
#include "train/run_plan.h"
#include "train/session.h"

namespace colla::bench {
namespace {

constexpr std::int64_t kStepsBetween = 3;

struct Net : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& image) {
    return out(dropout(torch::relu(norm(hidden(image.flatten(1))))));
  }
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(784, 256));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(256));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(256, 10));
};

Task makeTask() {
  Task task;
  task.name = "mlp";
  task.model = [] { return classifier(std::make_shared<Net>()); };
  task.optimizer = OptimizerOptions(Adam{.lr = 1e-3});
  task.data = [](Part part) { return openDataset("synthetic:mnist:600", part); };
  return task;
}

// Seconds that this worker's changes have taken, in all.
double secondsSoFar() {
  for (const metrics::Sample& sample : metrics::Registry::ofProcess().read()) {
    if (sample.family->name == "colla_epoch_replace_seconds") return sample.value();
  }
  return 0;
}

// Changes the workers, and takes down how long each change took on this one.
class Changes {
 public:
  explicit Changes(long count) : seconds_(static_cast<std::size_t>(count)) {}

  std::optional<EpochPlan> next(std::int64_t step) {
    const double now = secondsSoFar();
    if (last_) seconds_[*last_] = now - before_;
    last_.reset();
    const auto change = static_cast<std::size_t>(step / kStepsBetween);
    if (step % kStepsBetween != 0 || change >= seconds_.size()) return std::nullopt;
    before_ = now;
    last_ = change;
    static const std::vector<EpochPlan> kPlans = {{{0, 1, 2}}, {{0, 1}}, {{0, 1, 2, 3}}, {{0}}};
    return kPlans[change % kPlans.size()];
  }

  // By change; 0 where this worker was not in both epochs.
  std::vector<double>& seconds() { return seconds_; }

 private:
  std::vector<double> seconds_;
  std::optional<std::size_t> last_;
  double before_ = 0;
};

}  // namespace

Status trainInEpochs(const std::string& strategy, long changes, const std::string& file) {
  const Task task = makeTask();
  TrainOptions options;
  COLLA_TRY_ASSIGN(options.strategy, parseStrategy(strategy));
  options.slices = 4;
  options.threads = 1;
  options.batch = 24;
  options.steps = changes * kStepsBetween;
  options.evaluate = false;
  options.quiet = true;
  COLLA_TRY_ASSIGN(const auto place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  COLLA_TRY_ASSIGN(const train::RunPlan plan,
                   train::makePlan(options, place, task, train::Purpose::kTrain));
  COLLA_TRY_ASSIGN(const auto job, Job::init({.torchVersion = TORCH_VERSION,
                                              .settings = {{"slices", "4"}, {"threads", "1"}},
                                              .serves = true}));
  if (job->role() == Role::kServer) return serve(*job);
  Changes taken(changes);
  train::Session(*job, task, plan, [&](std::int64_t step) { return taken.next(step); }).run();
  // The end of a training brings all workers back together.
  COLLA_TRY(allreduce(job->world(), std::span<double>(taken.seconds()), {.op = ReduceOp::kMax}));
  if (job->rank() != 0) return {};
  std::ofstream out(file);
  for (const double seconds : taken.seconds()) out << fmt::format("{}\n", seconds);
  out.close();
  return out ? Status() : Status(StatusCode::kIo, "cannot write " + file);
}

}  // namespace colla::bench
