#include "train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "checkpoint/directory.h"
#include "checkpoint/restore.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "train/evaluation.h"
#include "train/exchange/parameter_average.h"
#include "train/interrupt.h"
#include "train/state.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status notFinite(const std::string& what, const std::string& tensor, const std::string& offer) {
  const std::string where = tensor.empty()
                                ? "all tensors are finite"
                                : fmt::format("the first tensor that is not finite is {}", tensor);
  return {StatusCode::kInvalidArgument,
          fmt::format("{}; {}: try a lower --lr or --clip-norm{}", what, where, offer)};
}

std::string notSaved(std::int64_t step) { return fmt::format("step {} is not saved", step); }

// How many sections a training by steps has, unless --eval-every says when one ends.
constexpr std::int64_t kSections = 10;

// The saved state of the optimizer, without that of an outer one under a strategy that has none.
std::vector<checkpoint::TensorView> stateFor(Strategy strategy, const checkpoint::Loaded& loaded) {
  std::vector<checkpoint::TensorView> kept;
  for (const checkpoint::TensorView& view : loaded.optimizer()) {
    if (strategy == Strategy::kLocalSgd || !view.name.ends_with(kOuterMomentum)) {
      kept.push_back(view);
    }
  }
  if (kept.size() < loaded.optimizer().size()) {
    log::warn("the checkpoint's outer momentum is left out: --strategy {} has none",
              toString(strategy));
  }
  return kept;
}

}  // namespace

Session::Session(Job& job, const Task& task, const RunPlan& plan, NextEpoch nextEpoch)
    : job_(job),
      epoch_(job.epoch()),
      workers_(Workers::of(job, epoch_)),
      nextEpoch_(std::move(nextEpoch)),
      task_(task),
      plan_(plan),
      schedule_(scheduleOf(task, plan)) {
  openData();
  replica_ =
      std::make_unique<Replica>(task.model, ReplicaOptions{.seed = plan.seed,
                                                           .threads = job.threads(),
                                                           .bfloat16 = plan.options.bfloat16});
  // A directory that the run resumes from is locked before it is read.
  std::optional<checkpoint::Directory> directory;
  std::optional<checkpoint::Loaded> loaded;
  if (plan.resumeStep) {
    directory = ownDirectory();
    if (records()) restoreModel(*replica_, loaded.emplace(load()));
  }
  broadcastModel(workers_->group, *replica_);
  makeExchange();
  start(loaded);
  if (!plan.resumeStep) directory = ownDirectory();
  startRecords(std::move(directory));
}

Session::~Session() = default;

void Session::openData() {
  const TrainOptions& options = plan_.options;
  train_ = valueOrThrow(task_.data(Part::kTrain));
  if (options.evaluate) {
    auto test = task_.data(Part::kTest);
    if (test.ok()) {
      test_ = *test;
    } else if (test.status().code() != StatusCode::kNotFound) {
      throwIfError(test.status());
    } else if (records()) {
      log::info("there is no test part: {}", test.status().message());
    }
  }
  order_ = valueOrThrow(data::Order::create({.samples = train_->size(),
                                             .batch = plan_.batch,
                                             .slices = workers_->map.slices(),
                                             .seed = plan_.seed,
                                             .shuffle = options.shuffle}));
  // Where each gradient is an update, an epoch has one for each worker.
  const std::int64_t perBatch = plan_.pace.updatePerBatch ? 1 : workers_->size();
  total_ = options.steps.value_or(options.epochs * order_->batchesPerEpoch() * perBatch);
  sectionSteps_ = options.evalEvery > 0
                      ? options.evalEvery
                      : std::max<std::int64_t>(1, (total_ + kSections - 1) / kSections);
}

std::optional<checkpoint::Directory> Session::ownDirectory() const {
  if (plan_.options.directory.empty() || !records()) return std::nullopt;
  checkpoint::Directory directory(checkpointsOf(plan_.options.directory));
  throwIfError(directory.own());
  return directory;
}

void Session::makeExchange() {
  ExchangeSetup setup;
  setup.parameters = replica_->parameters();
  if (!plan_.options.sparseAsDense) setup.rowSparse = replica_->model().rowSparse();
  setup.buffers = replica_->buffers();
  setup.numbers = replica_->numbers();
  setup.optimizer = optimizerOf(task_, plan_);
  setup.clipNorm = clipNormOf(task_, plan_);
  setup.policy = plan_.policy;
  if (setup.policy) setup.policy->workers = workers_->size();
  if (setup.policy && !plan_.pace.updatePerBatch) setup.policy->limit = total_;
  setup.partitions = plan_.options.servers.partitions;
  setup.chooseRoutes = plan_.chooseRoutes;
  setup.local = plan_.options.localSgd;
  setup.metrics = &metrics_;
  // The first batch comes again as the first step's.
  setup.look = [this](std::span<const Parameter> tables) {
    const std::int64_t batch = plan_.resumeStep.value_or(0);
    const SliceRange slices = workers_->slices();
    Feed feed(train_, *order_, slices, Feed::Pace::kSteps, batch, batch + 1);
    return replica_->touchedRows(tables, slices, batch, [&] { return feed.next(); });
  };
  exchange_ = train::makeExchange(plan_.strategy, *workers_, setup);
}

// The checkpoint's manifest was read by every process (run_plan.cc), so every host needs to have
// that. Worker 0 reads the tensors, and the others get them from there.
void Session::start(const std::optional<checkpoint::Loaded>& loaded) {
  if (plan_.resumeStep) {
    const std::string tensor = plan_.options.nanGuard ? replica_->firstNotFinite() : "";
    if (!tensor.empty()) {
      throw Error(StatusCode::kInvalidArgument,
                  fmt::format("{} of the checkpoint of step {} is not finite: resume from an "
                              "earlier one, or with --no-nan-guard",
                              tensor, *plan_.resumeStep));
    }
    first_ = saved_ = *plan_.resumeStep;
  }
  replica_->watchBuffers();
  std::vector<checkpoint::TensorView> kept;
  if (loaded) kept = stateFor(plan_.strategy, *loaded);
  Exchange::SavedState optimizer;
  if (plan_.resumeStep) optimizer = kept;
  try {
    exchange_->start(first_, optimizer);
  } catch (const Error& error) {
    throwIfError(loaded ? error.status().withContext(loaded->path()) : error.status());
  }
  savedAt_ = SteadyClock::now();
}

void Session::startRecords(std::optional<checkpoint::Directory> directory) {
  if (directory) saveIn(*std::move(directory));
  if (records()) recorder_ = std::make_unique<Recorder>(plan_, replica_->model().metrics());
}

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
  const data::Position position =
      order_->position(plan_.pace.updatePerBatch ? step : step / workers_->size());
  checkpoint::Manifest manifest;
  manifest.step = step;
  manifest.epoch = position.epoch;
  manifest.samples = position.batch * plan_.batch;
  manifest.seed = plan_.seed;
  manifest.slices = workers_->map.slices();
  manifest.threads = workers_->job.threads();
  manifest.globalBatch = plan_.batch;
  manifest.shuffle = plan_.options.shuffle;
  manifest.bfloat16 = plan_.options.bfloat16;
  manifest.model = task_.name;
  manifest.modelOptions = task_.options;
  manifest.optimizer = optimizerText(task_, plan_);
  manifest.data = train_->describe();
  manifest.strategy = toString(plan_.strategy);
  manifest.workers = workers_->size();
  manifest.torchVersion = TORCH_VERSION;
  return manifest;
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
  saveDue_ = false;
  if (!saver_ || saved_ == step) return;
  if (recorder_) recorder_->flush();
  const bool guarded = plan_.options.nanGuard;
  const std::string tensor = guarded ? replica_->firstNotFinite() : "";
  if (!tensor.empty()) throwIfError(notFinite(notSaved(step), tensor, offer()));
  throwIfError(saver_->finish());  // Servers take one snapshot at a time.
  Refusal refusal;
  if (guarded) {
    // Rows of tables that this worker has not looked up are only seen as they are written.
    refusal = [offered = offer()](std::int64_t taken, const std::string& table) {
      return notFinite(notSaved(taken), table, offered);
    };
  }
  const ExchangeState state = exchange_->state(step, refusal);
  if (saved_ == state.step) return;
  saveState(*saver_, manifest(state.step), *replica_, state);
  saved_ = state.step;
  savedAt_ = SteadyClock::now();
}

bool Session::saveIsDue(std::int64_t before) const {
  const TrainOptions& options = plan_.options;
  return (options.saveEvery > 0 && before / options.saveEvery != step_ / options.saveEvery) ||
         (options.saveSeconds > 0 && secondsSince(savedAt_) >= options.saveSeconds);
}

// `alone`: the section goes on, so no line of progress is coming that shows the result.
void Session::evaluateNow(bool alone) {
  exchange_
      ->refresh();  // A model may read more of a table than it looks up: lm's whole softmax does.
  tested_ = evaluateAll(*replica_, *workers_, test_, plan_, exchange_->rows(),
                        /*alone=*/!plan_.pace.inStep);
  testedAt_ = step_;
  evaluationDue_ = false;
  if (recorder_) recorder_->evaluation(step_, replica_->shown(*tested_), alone);
}

void Session::guard(const Outcome& outcome) const {
  if (!plan_.options.nanGuard || std::isfinite(outcome.loss)) return;
  const std::string what = fmt::format("the loss of step {} is {}", step_, outcome.loss);
  throwIfError(notFinite(what, replica_->firstNotFinite(), offer()));
}

std::string Session::offer() const {
  if (saved_ < 0 || (saver_ && !saver_->finish().ok())) return "";
  return fmt::format("; the checkpoint of step {} is from before", saved_);
}

observe::Section Session::section() const {
  if (plan_.options.steps) return {.epoch = 0, .epochs = 0, .steps = total_, .already = step_};
  const data::Position position = feed_->position();
  return {.epoch = static_cast<int>(position.epoch + 1),
          .epochs = static_cast<int>(plan_.options.epochs),
          .steps = order_->batchesPerEpoch(),
          .already = position.batch};
}

bool Session::endsSection(std::int64_t before) const {
  if (done()) return true;
  return plan_.options.steps ? before / sectionSteps_ != step_ / sectionSteps_
                             : feed_->position().batch == 0;
}

bool Session::evaluationIsDue(std::int64_t before, bool sectionEnds) const {
  const std::int64_t every = plan_.options.evalEvery;
  return every > 0 ? before / every != step_ / every : sectionEnds;
}

bool Session::done() const {
  if (plan_.options.steps) return step_ >= total_;
  if (plan_.pace.updatePerBatch && !plan_.options.servers.requeueDropped) return step_ >= total_;
  return feed_->batch() >= plan_.options.epochs * order_->batchesPerEpoch() && !feed_->waits();
}

Progress Session::progressOf(std::int64_t step, const Outcome& outcome) const {
  return {.step = step,
          .epoch = order_->position(step).epoch,
          .loss = outcome.loss,
          .metrics = replica_->shown(outcome).metrics};
}

// What servers dropped, and how stale gradients were.
void Session::reportStatistics() {
  if (!records() || !plan_.policy || plan_.policy->exact()) return;
  exchange_->awaitOthers(step_);  // What they bring last may still be dropped.
  const auto statistics = exchange_->statistics();
  if (!statistics) return;
  if (!plan_.pace.inStep) summary_.samples = statistics->samples;
  const std::string histogram = ps::histogram(statistics->staleness);
  log::info(
      "{} gradients taken, {} dropped; updates between a worker's pull and its push, and "
      "how often: {}",
      statistics->taken, statistics->dropped, histogram.empty() ? "none" : histogram);
}

// From batch `first` on.
Feed Session::makeFeed(std::int64_t first) const {
  Feed::Pace pace = Feed::Pace::kSteps;
  std::int64_t end = total_;
  if (!plan_.pace.updatePerBatch) {
    pace = Feed::Pace::kOwn;
  } else if (plan_.options.servers.requeueDropped) {
    pace = Feed::Pace::kNoLoss;
  }
  if (pace != Feed::Pace::kSteps && !plan_.options.steps) {
    end = plan_.options.epochs * order_->batchesPerEpoch();
  }
  return Feed(train_, *order_, workers_->slices(), pace, first, end);
}

Summary Session::run() {
  begin();
  if (done()) endEmptyRun();
  while (!done() && !summary_.interrupted) {
    if (epochEnds()) continue;
    const double factor = factorAt(schedule_, step_);
    if (feed_->waits()) {
      waitForEpoch(factor);
      continue;
    }
    beginSection();
    const std::int64_t before = step_;
    train(factor);

    const bool last = done();
    const bool sectionEnds = endsSection(before) || summary_.interrupted;
    evaluationDue_ = evaluationDue_ || last || evaluationIsDue(before, sectionEnds);
    saveDue_ = saveDue_ || saveIsDue(before);
    if (last && !summary_.interrupted) awaitOthers();
    const bool settled = exchange_->settled();
    if (evaluates() && evaluationDue_ && settled && !summary_.interrupted) {
      evaluateNow(/*alone=*/!sectionEnds);
    }
    if (recorder_) recorder_->endStep();
    if (sectionEnds) endSection();
    if (saveDue_ && settled) save(step_);
  }
  gatherIdleWorkers();
  if (summary_.interrupted) awaitOthers();
  save(step_);
  if (saver_) throwIfError(saver_->finish());
  return finish();
}

void Session::begin() {
  step_ = first_;
  if (!plan_.resumeStep) save(0);
  savedAt_ = SteadyClock::now();
  feed_.emplace(makeFeed(plan_.pace.updatePerBatch ? first_ : first_ / workers_->size()));
  begin_ = SteadyClock::now();
}

void Session::endEmptyRun() {
  if (records()) log::info("step {} was the last one: nothing is left to train", step_);
  if (evaluates()) evaluateNow(/*alone=*/true);
}

// This worker is through with the epoch; others still train samples that were dropped.
void Session::waitForEpoch(double factor) {
  exchange_->beginStep(Interrupt::requested());
  const StepResult result = exchange_->finish({.factor = factor, .empty = true});
  summary_.interrupted = result.stop;
  if (*result.step == step_) feed_->goOn();  // Nobody had anything left.
  step_ = *result.step;
}

void Session::beginSection() {
  if (inSection_) return;
  if (recorder_) recorder_->begin(section());
  mean_ = {};
  inSection_ = true;
}

// One step of this worker: hooks, slices, exchange, records.
void Session::train(double factor) {
  if (records()) {
    for (const auto& hook : task_.hooks) hook->beforeStep(step_, replica_->model());
  }
  const std::int64_t done = plan_.options.steps ? -1 : feed_->position().batch + 1;
  const std::int64_t ownSamples = feed_->ownSamples();
  const StepInput input{.batch = feed_->batch(),
                        .samples = plan_.pace.ownMeans ? ownSamples : feed_->samples(),
                        .allSamples = feed_->samples(),
                        .allSlices = workers_->map.slices(),
                        .factor = factor,
                        .stop = Interrupt::requested(),
                        .last = step_ + 1 >= total_};
  // Where the others go on while this worker evaluates or saves, that is time of training.
  const double start = plan_.pace.inStep ? secondsSince(begin_) : summary_.seconds;
  const Outcome outcome =
      replica_->step(*exchange_, workers_->slices(), input, [this] { return feed_->next(); });
  const double end = secondsSince(begin_);
  metrics_.stepEnded(ownSamples, std::chrono::nanoseconds(std::llround((end - start) * 1e9)));
  step_ = outcome.step.value_or(step_ + 1);
  feed_->advance(step_, outcome.dropped);
  guard(outcome);
  mean_.add(outcome);
  summary_.seconds += end - start;
  summary_.samples += static_cast<std::int64_t>(outcome.trained);
  summary_.interrupted = outcome.stop;
  record(done < 0 ? step_ : done, start, end, outcome);
}

void Session::record(std::int64_t done, double start, double end, const Outcome& outcome) {
  if (!recorder_) return;
  recorder_->step(step_, done, start, end, replica_->shown(outcome),
                  replica_->shown(mean_.value()));
  for (const auto& hook : task_.hooks) {
    hook->afterStep(progressOf(step_, outcome), replica_->model());
  }
}

// The others go on while this worker has nothing left to do: what it saves and reports last is what
// they have come to together.
void Session::awaitOthers() {
  if (plan_.pace.inStep) return;
  if (records()) step_ = exchange_->awaitOthers(step_);
  summary_.seconds = secondsSince(begin_);
}

void Session::endSection() {
  inSection_ = false;
  if (!recorder_) return;
  const std::optional<Outcome> fresh =
      testedAt_ == step_ ? std::optional(replica_->shown(*tested_)) : std::nullopt;
  recorder_->end(replica_->shown(mean_.value()), fresh ? &*fresh : nullptr);
}

Summary Session::finish() {
  if (records() && !task_.hooks.empty()) exchange_->refresh();  // Hooks get a whole model.
  reportStatistics();
  exchange_->leave();
  summary_.steps = step_ - first_;
  summary_.train = progressOf(step_, mean_.value());
  if (tested_) summary_.test = progressOf(testedAt_, *tested_);
  if (recorder_) {
    recorder_->finish(summary_);
    for (const auto& hook : task_.hooks) hook->atEnd(summary_.train, replica_->model());
  }
  return summary_;
}

}  // namespace colla::train
