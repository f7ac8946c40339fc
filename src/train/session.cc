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

Status notFinite(const std::string& what, const std::string& tensor, const std::string& offer) {
  const std::string where = tensor.empty()
                                ? "all tensors are finite"
                                : fmt::format("the first tensor that is not finite is {}", tensor);
  return {StatusCode::kInvalidArgument,
          fmt::format("{}; {}: try a lower --lr or --clip-norm{}", what, where, offer)};
}

std::string notSaved(std::int64_t step) { return fmt::format("step {} is not saved", step); }

// Where training goes by steps and nobody said when to evaluate.
constexpr std::int64_t kSections = 10;

// By the slices, where that is wanted.
Optimizer scaled(Optimizer optimizer, const RunPlan& plan) {
  auto* options = std::get_if<OptimizerOptions>(&optimizer);
  if (plan.options.scaleRate && options != nullptr) {
    setLearningRate(*options, scaleLearningRate(learningRate(*options), plan.slices));
  }
  return optimizer;
}

double clipNormOf(const Task& task, const RunPlan& plan) {
  return plan.options.clipNorm.value_or(task.clipNorm);
}

Schedule scheduleOf(const Task& task, const RunPlan& plan) {
  Schedule schedule = plan.options.schedule.value_or(task.schedule);
  schedule.warmup = plan.options.warmup.value_or(schedule.warmup);
  return schedule;
}

// All that says how gradients change parameters.
std::string optimizerText(const Task& task, const RunPlan& plan) {
  const Optimizer optimizer = scaled(task.optimizer, plan);
  const auto* options = std::get_if<OptimizerOptions>(&optimizer);
  std::string text =
      options != nullptr ? toString(*options) : std::get<TorchOptimizer>(optimizer).text;
  if (clipNormOf(task, plan) > 0) text += fmt::format(", clip-norm {}", clipNormOf(task, plan));
  const Schedule schedule = scheduleOf(task, plan);
  if (schedule != Schedule()) text += fmt::format(", lr-schedule {}", toString(schedule));
  return text;
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
    } else if (records()) {
      log::info("there is no test part: {}", test.status().message());
    }
  }
  order_ = valueOrThrow(data::Order::create({.samples = train_->size(),
                                             .batch = plan.batch,
                                             .slices = job.slices(),
                                             .seed = plan.seed,
                                             .shuffle = options.shuffle}));
  // Where each gradient is an update, an epoch has one for each worker.
  const std::int64_t perBatch = !plan.policy || plan.policy->together() ? 1 : job.size();
  total_ = options.steps.value_or(options.epochs * order_->batchesPerEpoch() * perBatch);
  section_ = options.evalEvery > 0
                 ? options.evalEvery
                 : std::max<std::int64_t>(1, (total_ + kSections - 1) / kSections);
  ReplicaOptions replica;
  replica.seed = plan.seed;
  replica.clipNorm = clipNormOf(task, plan);
  replica.bfloat16 = options.bfloat16;
  replica.sparseAsDense = options.sparseAsDense;
  replica.policy = plan.policy;
  if (replica.policy && !replica.policy->together()) replica.policy->limit = total_;
  replica.tablesAlone = plan.strategy == Strategy::kHybrid;
  replica.partitions = options.servers.partitions;
  replica.chooseRoutes = plan.chooseRoutes;
  // A first look at the data, where something depends on it. It comes again as the first step's.
  const std::int64_t look = plan.resumeStep.value_or(0);
  std::optional<Feed> first;
  replica.look = look;
  replica.next = [&] {
    if (!first) {
      first.emplace(train_, *order_, map_.range(job.rank()), Feed::Pace::kSteps, look, look + 1);
    }
    return first->next();
  };
  replica_ =
      std::make_unique<Replica>(job, map_, task.model, scaled(task.optimizer, plan), replica);
  std::optional<checkpoint::Directory> directory;
  if (!options.directory.empty() && records()) {
    directory.emplace(checkpointsOf(options.directory));
    throwIfError(directory->own());
  }
  start();
  if (directory) saveIn(*std::move(directory));
  if (records()) recorder_ = std::make_unique<Recorder>(plan, replica_->model().metrics());
}

Session::~Session() = default;

// Comes before the records of later steps are dropped: whenever the process is killed, the newest
// checkpoint is of a step that log.txt has.
void Session::saveIn(checkpoint::Directory directory) {
  if (plan_.resumeStep) {
    const std::string aside = valueOrThrow(directory.setAside(*plan_.resumeStep));
    if (!aside.empty()) {
      log::info("checkpoints of steps after {} were moved to {}", *plan_.resumeStep, aside);
    }
  }
  checkpoint::SaverOptions saver;
  saver.keep = plan_.options.keep;
  saver.afterSave = [this](const checkpoint::Saved& saved, double seconds) {
    log::debug("saved {} in {:.3f} s", saved.path, seconds);
    for (const auto& hook : task_.hooks) hook->afterSave(saved.step, saved.path);
  };
  saver_ = std::make_unique<checkpoint::Saver>(std::move(directory), std::move(saver));
}

checkpoint::Manifest Session::manifest(std::int64_t step) const {
  const bool single = !plan_.policy || plan_.policy->together();
  const data::Position position = order_->position(single ? step : step / job_.size());
  checkpoint::Manifest manifest;
  manifest.step = step;
  manifest.epoch = position.epoch;
  manifest.samples = position.batch * plan_.batch;
  manifest.seed = plan_.seed;
  manifest.slices = job_.slices();
  manifest.threads = job_.threads();
  manifest.globalBatch = plan_.batch;
  manifest.shuffle = plan_.options.shuffle;
  manifest.bfloat16 = plan_.options.bfloat16;
  manifest.model = task_.name;
  manifest.modelOptions = task_.options;
  manifest.optimizer = optimizerText(task_, plan_);
  manifest.data = train_->describe();
  manifest.strategy = toString(plan_.strategy);
  manifest.workers = job_.size();
  manifest.torchVersion = TORCH_VERSION;
  return manifest;
}

// A new model, or the checkpoint's. Its manifest was read by every process (run_plan.cc), so every
// host needs to have that; the tensors are read by worker 0, and the others get them from there.
void Session::start() {
  std::optional<checkpoint::Loaded> loaded;
  if (plan_.resumeStep) {
    if (records()) loaded.emplace(load());
    restoreState(job_.world(), *replica_, loaded ? &*loaded : nullptr);
    const std::string tensor = plan_.options.nanGuard ? replica_->firstNotFinite() : "";
    if (!tensor.empty()) {
      throw Error(StatusCode::kInvalidArgument,
                  fmt::format("{} of the checkpoint of step {} is not finite: resume from an "
                              "earlier one, or with --no-nan-guard",
                              tensor, *plan_.resumeStep));
    }
    first_ = saved_ = *plan_.resumeStep;
  }
  replica_->start(first_, loaded ? loaded->optimizer() : std::span<const checkpoint::TensorView>());
  savedAt_ = SteadyClock::now();
}

checkpoint::Loaded Session::load() const {
  const checkpoint::Directory directory(checkpointsOf(plan_.options.directory));
  checkpoint::Loaded loaded = valueOrThrow(directory.load(*plan_.resumeStep));
  const checkpoint::Manifest now = manifest(*plan_.resumeStep);
  const checkpoint::Manifest& before = loaded.manifest();
  // What must stay was compared before any worker started (run_plan.cc).
  for (const auto& difference : differences(before, now)) {
    log::warn("resuming with another {0}: {0} was {1} and is {2}", difference.name, difference.a,
              difference.b);
  }
  if (!before.data.empty() && before.data != now.data) {
    log::warn("resuming with other data: it was {} and is {}", before.data, now.data);
  }
  return loaded;
}

// Servers may be further on than this worker knows: the checkpoint is of their step.
void Session::save(std::int64_t step) {
  if (!saver_ || saved_ == step) return;
  if (recorder_) recorder_->flush();
  const bool guarded = plan_.options.nanGuard;
  const std::string tensor = guarded ? replica_->firstNotFinite() : "";
  if (!tensor.empty()) throwIfError(notFinite(notSaved(step), tensor, offer()));
  Refusal refusal;
  if (Servers* const servers = replica_->servers()) {
    throwIfError(saver_->finish());  // One snapshot at a time.
    step = servers->takeSnapshot();
    if (saved_ == step) return;
    // Rows of tables that this worker has not looked up are only seen as they are written.
    const auto refuse = [step, offered = offer()](const std::string& table) {
      return notFinite(notSaved(step), table, offered);
    };
    if (guarded) refusal = refuse;
  }
  saveState(*saver_, manifest(step), *replica_, refusal);
  saved_ = step;
  savedAt_ = SteadyClock::now();
}

bool Session::saveIsDue(std::int64_t before, std::int64_t step) const {
  const TrainOptions& options = plan_.options;
  return (options.saveEvery > 0 && before / options.saveEvery != step / options.saveEvery) ||
         (options.saveSeconds > 0 && secondsSince(savedAt_) >= options.saveSeconds);
}

Outcome Session::evaluate() {
  // A model may read more of a table than it looks up: lm's whole softmax does.
  if (Servers* const servers = replica_->servers()) servers->refreshAll();
  return evaluateAll(*replica_, job_, map_, test_, plan_, /*alone=*/!inStep());
}

void Session::guard(std::int64_t step, const Outcome& outcome) const {
  if (!plan_.options.nanGuard || std::isfinite(outcome.loss)) return;
  const std::string what = fmt::format("the loss of step {} is {}", step, outcome.loss);
  throwIfError(notFinite(what, replica_->firstNotFinite(), offer()));
}

std::string Session::offer() const {
  if (saved_ < 0 || (saver_ && !saver_->finish().ok())) return "";
  return fmt::format("; the checkpoint of step {} is from before", saved_);
}

observe::Section Session::sectionAt(const Feed& feed, std::int64_t step) const {
  if (plan_.options.steps) return {.epoch = 0, .epochs = 0, .steps = total_, .already = step};
  const data::Position position = feed.position();
  return {.epoch = static_cast<int>(position.epoch + 1),
          .epochs = static_cast<int>(plan_.options.epochs),
          .steps = order_->batchesPerEpoch(),
          .already = position.batch};
}

bool Session::endsSection(const Feed& feed, std::int64_t before, std::int64_t step) const {
  if (done(feed, step)) return true;
  return plan_.options.steps ? before / section_ != step / section_ : feed.position().batch == 0;
}

bool Session::done(const Feed& feed, std::int64_t step) const {
  if (plan_.options.steps) return step >= total_;
  const bool stepped = !plan_.policy || plan_.policy->together();
  if (stepped && !plan_.options.servers.requeueDropped) return step >= total_;
  return feed.batch() >= plan_.options.epochs * order_->batchesPerEpoch() && !feed.waits();
}

Progress Session::progressOf(std::int64_t step, const Outcome& outcome) const {
  return {.step = step,
          .epoch = order_->position(step).epoch,
          .loss = outcome.loss,
          .metrics = replica_->shown(outcome).metrics};
}

// What was dropped, and how stale gradients were.
void Session::reportServers(Summary& summary) {
  Servers* const servers = replica_->servers();
  if (servers == nullptr) return;
  if (records() && !plan_.policy->exact()) {
    servers->waitForOthers();  // What they bring last may still be dropped.
    const ps::Statistics statistics = servers->statistics();
    if (!inStep()) summary.samples = statistics.samples;
    const std::string histogram = ps::histogram(statistics.staleness);
    log::info(
        "{} gradients taken, {} dropped; updates between a worker's pull and its push, and "
        "how often: {}",
        statistics.taken, statistics.dropped, histogram.empty() ? "none" : histogram);
  }
  servers->leave();
}

Feed Session::makeFeed() const {
  Feed::Pace pace = Feed::Pace::kSteps;
  std::int64_t first = first_;
  std::int64_t end = total_;
  if (plan_.policy && !plan_.policy->together()) {
    pace = Feed::Pace::kOwn;
    first = first_ / job_.size();
  } else if (plan_.options.servers.requeueDropped) {
    pace = Feed::Pace::kNoLoss;
  }
  if (pace != Feed::Pace::kSteps && !plan_.options.steps) {
    end = plan_.options.epochs * order_->batchesPerEpoch();
  }
  return Feed(train_, *order_, map_.range(job_.rank()), pace, first, end);
}

Summary Session::run() {
  const TrainOptions& options = plan_.options;
  if (!plan_.resumeStep) save(0);
  savedAt_ = SteadyClock::now();
  Feed feed = makeFeed();
  const Schedule schedule = scheduleOf(task_, plan_);
  const Replica::NextBatch next = [&] { return feed.next(); };

  Summary summary;
  Mean mean;
  std::optional<Outcome> test;
  std::int64_t tested = -1;  // The step that `test` is of.
  std::int64_t step = first_;
  // Where workers don't go in step, worker 0 evaluates for all.
  const bool evaluates = test_ && (inStep() || records());
  // `alone`: no line of progress is coming to tell the result.
  const auto evaluateNow = [&](bool alone) {
    test = evaluate();
    tested = step;
    if (recorder_) recorder_->evaluation(step, replica_->shown(*test), alone);
  };
  const auto begin = SteadyClock::now();
  // The others go on while this worker has nothing left to do: what it saves and tells last is what
  // they have come to together.
  const auto awaitOthers = [&] {
    if (inStep()) return;
    if (records()) step = replica_->servers()->waitForOthers();
    summary.seconds = secondsSince(begin);
  };
  if (done(feed, step)) {
    if (records()) log::info("step {} was the last one: nothing is left to train", step);
    if (evaluates) evaluateNow(/*alone=*/true);
  }
  bool inSection = false;
  while (!done(feed, step) && !summary.interrupted) {
    const double factor = factorAt(schedule, step);
    if (feed.waits()) {
      const Outcome outcome = replica_->emptyStep(factor, Interrupt::requested());
      summary.interrupted = outcome.stop;
      if (*outcome.step == step) feed.goOn();  // Nobody had anything left.
      step = *outcome.step;
      continue;
    }
    if (!inSection) {
      if (recorder_) recorder_->begin(sectionAt(feed, step));
      mean = {};
      inSection = true;
    }
    if (records()) {
      for (const auto& hook : task_.hooks) hook->beforeStep(step, replica_->model());
    }
    const data::Position position = feed.position();
    const std::int64_t samples = feed.samples();
    // Where the others go on while this worker evaluates or saves, that is time of training.
    const double start = inStep() ? secondsSince(begin) : summary.seconds;
    const Outcome outcome =
        replica_->step(feed.batch(), samples, next, factor, Interrupt::requested());
    const double end = secondsSince(begin);
    const std::int64_t before = step;
    step = outcome.step.value_or(step + 1);
    feed.advance(step, outcome.dropped);
    guard(step, outcome);
    mean.add(outcome);
    summary.seconds += end - start;
    summary.samples += static_cast<std::int64_t>(outcome.trained);
    summary.interrupted = outcome.stop;
    if (recorder_) {
      const std::int64_t ready = plan_.options.steps ? step : position.batch + 1;
      recorder_->step(step, ready, start, end, replica_->shown(outcome),
                      replica_->shown(mean.value()));
      for (const auto& hook : task_.hooks) {
        hook->afterStep(progressOf(step, outcome), replica_->model());
      }
    }
    const bool ends = endsSection(feed, before, step) || summary.interrupted;
    const bool last = done(feed, step);
    const bool due =
        options.evalEvery > 0 ? before / options.evalEvery != step / options.evalEvery : ends;
    if (last && !summary.interrupted) awaitOthers();
    if (evaluates && (due || last) && !summary.interrupted) evaluateNow(/*alone=*/!ends);
    if (recorder_) recorder_->endStep();
    if (ends) {
      if (recorder_) {
        const std::optional<Outcome> fresh =
            tested == step ? std::optional(replica_->shown(*test)) : std::nullopt;
        recorder_->end(replica_->shown(mean.value()), fresh ? &*fresh : nullptr);
      }
      inSection = false;
    }
    if (saveIsDue(before, step)) save(step);
  }
  if (summary.interrupted) awaitOthers();
  save(step);
  if (saver_) throwIfError(saver_->finish());
  if (replica_->servers() != nullptr && records() && !task_.hooks.empty()) {
    replica_->servers()->refreshAll();  // Hooks get a whole model.
  }
  reportServers(summary);

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
