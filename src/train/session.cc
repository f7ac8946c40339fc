#include "train/session.h"

#include <fmt/format.h>

#include <cmath>

#include "base/log.h"
#include "checkpoint/directory.h"
#include "checkpoint/restore.h"
#include "colla/error.h"
#include "train/evaluation.h"
#include "train/interrupt.h"
#include "train/state.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

double secondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// Where training goes by steps and nobody said when to evaluate.
constexpr std::int64_t kSections = 10;

std::string optimizerText(const Optimizer& optimizer) {
  const auto* options = std::get_if<OptimizerOptions>(&optimizer);
  return options != nullptr ? toString(*options) : std::get<TorchOptimizer>(optimizer).text;
}

// By the slices, where that is wanted.
Optimizer scaled(Optimizer optimizer, const RunPlan& plan) {
  auto* options = std::get_if<OptimizerOptions>(&optimizer);
  if (plan.options.scaleRate && options != nullptr) {
    setLearningRate(*options, scaleLearningRate(learningRate(*options), plan.slices));
  }
  return optimizer;
}

}  // namespace

Session::Session(Job& job, const Task& task, const RunPlan& plan)
    : job_(job),
      task_(task),
      plan_(plan),
      map_(valueOrThrow(SliceMap::even(job.slices(), job.size()))) {
  const TrainOptions& options = plan.options;
  train_ = valueOrThrow(task.data(Part::kTrain));
  if (options.evaluate) {
    auto test = task.data(Part::kTest);
    if (test.ok()) {
      test_ = *test;
    } else if (test.status().code() != StatusCode::kNotFound) {
      throwIfError(test.status());
    }
  }
  order_ = valueOrThrow(data::Order::create({.samples = train_->size(),
                                             .batch = plan.batch,
                                             .slices = job.slices(),
                                             .seed = plan.seed,
                                             .shuffle = options.shuffle}));
  total_ = options.steps.value_or(options.epochs * order_->batchesPerEpoch());
  section_ = options.evalEvery > 0
                 ? options.evalEvery
                 : std::max<std::int64_t>(1, (total_ + kSections - 1) / kSections);
  replica_ = std::make_unique<Replica>(
      job, map_, task.model, scaled(task.optimizer, plan),
      ReplicaOptions{plan.seed, options.clipNorm.value_or(task.clipNorm), options.bfloat16});
  if (!options.directory.empty() && records()) {
    checkpoint::Directory directory(checkpointsOf(options.directory));
    throwIfError(directory.own());
    checkpoint::SaverOptions saver;
    saver.keep = options.keep;
    saver.afterSave = [this](const checkpoint::Saved& saved, double seconds) {
      log::debug("saved {} in {:.3f} s", saved.path, seconds);
      for (const auto& hook : task_.hooks) hook->afterSave(saved.step, saved.path);
    };
    saver_ = std::make_unique<checkpoint::Saver>(std::move(directory), std::move(saver));
  }
  if (plan.resumeStep) restore();
  if (records()) recorder_ = std::make_unique<Recorder>(plan, replica_->model().metrics());
}

Session::~Session() = default;

checkpoint::Manifest Session::manifest(std::int64_t step) const {
  const data::Position position = order_->position(step);
  checkpoint::Manifest manifest;
  manifest.step = step;
  manifest.epoch = position.epoch;
  manifest.samples = position.batch * plan_.batch;
  manifest.seed = plan_.seed;
  manifest.slices = job_.slices();
  manifest.threads = job_.threads();
  manifest.globalBatch = plan_.batch;
  manifest.shuffle = plan_.options.shuffle;
  manifest.model = task_.name;
  manifest.modelOptions = task_.options;
  manifest.optimizer = optimizerText(task_.optimizer);
  manifest.strategy = toString(plan_.strategy);
  manifest.workers = job_.size();
  manifest.torchVersion = TORCH_VERSION;
  return manifest;
}

// Worker 0 reads; the others get it from there, so that one host needs to have it.
void Session::restore() {
  std::optional<checkpoint::Loaded> loaded;
  if (records()) {
    const checkpoint::Directory directory(checkpointsOf(plan_.options.directory));
    loaded.emplace(valueOrThrow(directory.load(*plan_.resumeStep)));
    for (const auto& difference : differences(loaded->manifest(), manifest(*plan_.resumeStep))) {
      const std::string text =
          fmt::format("{} was {} and is {}", difference.name, difference.a, difference.b);
      if (difference.name != "optimizer") {
        throw Error(StatusCode::kInvalidArgument,
                    fmt::format("cannot resume from {}: {}; a run goes on as it began",
                                loaded->path(), text));
      }
      log::warn("resuming with another optimizer: {}", text);
    }
  }
  restoreState(job_.world(), *replica_, loaded ? &*loaded : nullptr);
  first_ = saved_ = *plan_.resumeStep;
  savedAt_ = SteadyClock::now();
}

void Session::save(std::int64_t step) {
  if (!saver_ || saved_ == step) return;
  if (recorder_) recorder_->flush();
  saveState(*saver_, manifest(step), *replica_);
  saved_ = step;
  savedAt_ = SteadyClock::now();
}

bool Session::saveIsDue(std::int64_t step) const {
  const TrainOptions& options = plan_.options;
  return (options.saveEvery > 0 && step % options.saveEvery == 0) ||
         (options.saveSeconds > 0 && secondsSince(savedAt_) >= options.saveSeconds);
}

Outcome Session::evaluate() { return evaluateAll(*replica_, job_, map_, test_, plan_); }

void Session::guard(std::int64_t step, const Outcome& outcome) const {
  if (!plan_.options.nanGuard || std::isfinite(outcome.loss)) return;
  const std::string tensor = replica_->firstNotFinite();
  throw Error(
      StatusCode::kInvalidArgument,
      fmt::format(
          "the loss of step {} is {}; {}: try a lower --lr or --clip-norm{}", step, outcome.loss,
          tensor.empty() ? std::string("all tensors are finite")
                         : fmt::format("the first tensor that is not finite is {}", tensor),
          saved_ >= 0 ? fmt::format("; the checkpoint of step {} is from before", saved_) : ""));
}

observe::Section Session::sectionAt(std::int64_t step) const {
  if (plan_.options.steps) return {.epoch = 0, .epochs = 0, .steps = total_, .already = step};
  const data::Position position = order_->position(step);
  return {.epoch = static_cast<int>(position.epoch + 1),
          .epochs = static_cast<int>(plan_.options.epochs),
          .steps = order_->batchesPerEpoch(),
          .already = position.batch};
}

bool Session::endsSection(std::int64_t done) const {
  if (done == total_) return true;
  return plan_.options.steps ? done % section_ == 0 : order_->position(done).batch == 0;
}

Progress Session::progressOf(std::int64_t step, const Outcome& outcome) const {
  return {.step = step,
          .epoch = order_->position(step).epoch,
          .loss = outcome.loss,
          .metrics = replica_->model().shown(outcome.metrics)};
}

Summary Session::run() {
  const TrainOptions& options = plan_.options;
  if (!plan_.resumeStep) save(0);
  savedAt_ = SteadyClock::now();
  data::LoaderOptions loading;
  loading.slices = map_.range(job_.rank());
  loading.firstStep = first_;
  loading.endStep = std::max(first_, total_);
  const auto loader = valueOrThrow(data::Loader::create(train_, *order_, loading));
  const Schedule schedule = options.schedule.value_or(task_.schedule);
  const Replica::NextBatch next = [&] { return valueOrThrow(loader->next()); };

  Summary summary;
  Mean mean;
  std::optional<Outcome> test;
  std::int64_t tested = -1;  // The step that `test` is of.
  std::int64_t step = first_;
  const auto begin = SteadyClock::now();
  bool inSection = false;
  while (step < total_ && !summary.interrupted) {
    if (!inSection) {
      if (recorder_) recorder_->begin(sectionAt(step));
      mean = {};
      inSection = true;
    }
    if (records()) {
      for (const auto& hook : task_.hooks) hook->beforeStep(step, replica_->model());
    }
    const data::Position position = order_->position(step);
    const std::int64_t samples = order_->batch(position.batch).count;
    const double start = secondsSince(begin);
    const Outcome outcome =
        replica_->step(step, samples, next, factorAt(schedule, step), Interrupt::requested());
    const double end = secondsSince(begin);
    guard(++step, outcome);
    mean.add(outcome);
    summary.seconds += end - start;
    summary.samples += samples;
    summary.interrupted = outcome.stop;
    if (recorder_) {
      const std::int64_t done = plan_.options.steps ? step : position.batch + 1;
      recorder_->step(step, done, start, end, replica_->shown(outcome),
                      replica_->shown(mean.value()));
      for (const auto& hook : task_.hooks) {
        hook->afterStep(progressOf(step, outcome), replica_->model());
      }
    }
    const bool ends = endsSection(step) || summary.interrupted;
    const bool due = options.evalEvery > 0 ? step % options.evalEvery == 0 : ends;
    if (test_ && (due || step == total_) && !summary.interrupted) {
      test = evaluate();
      tested = step;
      if (recorder_) recorder_->evaluation(step, replica_->shown(*test));
    }
    if (ends) {
      if (recorder_) {
        const std::optional<Outcome> fresh =
            tested == step ? std::optional(replica_->shown(*test)) : std::nullopt;
        recorder_->end(replica_->shown(mean.value()), fresh ? &*fresh : nullptr);
      }
      inSection = false;
    }
    if (saveIsDue(step)) save(step);
  }
  save(step);
  if (saver_) throwIfError(saver_->finish());

  summary.steps = step - first_;
  summary.train = progressOf(step, mean.value());
  if (test) summary.test = progressOf(tested, *test);
  if (recorder_) {
    recorder_->finish(summary);
    for (const auto& hook : task_.hooks) hook->atEnd(summary.train, replica_->model());
  }
  return summary;
}

}  // namespace colla::train
