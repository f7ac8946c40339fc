#include "train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log.h"
#include "checkpoint/directory.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "train/evaluation.h"
#include "train/groups.h"
#include "train/interrupt.h"
#include "train/optimizer_trial.h"
#include "train/share_data.h"
#include "train/state.h"
#include "train/tensors.h"
#include "train/user_code.h"

namespace colla::train {
namespace {

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// How many lines of progress a training by steps has at least, unless --eval-every is given.
constexpr std::int64_t kSections = 10;

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
  replica_ = std::make_unique<Replica>(modelMakerOf(task),
                                       ReplicaOptions{.seed = plan.seed,
                                                      .threads = job.threads(),
                                                      .bfloat16 = plan.options.bfloat16,
                                                      .metrics = &metrics_});
  watchEvaluations();
  if (records()) throwIfError(tryOptimizer(task, plan, replica_->parameters()));
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
  train_ = valueOrThrow(openPart(task_, Part::kTrain));
  if (options.evaluate) {
    auto test = openPart(task_, Part::kTest);
    if (test.ok()) {
      test_ = *test;
    } else if (test.status().code() != StatusCode::kNotFound) {
      throwIfError(test.status());
    } else if (records()) {
      log::info("there is no test part: {}", test.status().message());
    }
  }
  shareData(*workers_, std::array{train_, test_});
  order_ = valueOrThrow(data::Order::create({.samples = train_->size(),
                                             .batch = plan_.batch,
                                             .slices = workers_->map.slices(),
                                             .seed = plan_.seed,
                                             .shuffle = options.shuffle}));
  // Where each gradient is an update, an epoch has one for each worker.
  const std::int64_t perBatch = plan_.rules.updatePerBatch ? 1 : workers_->size();
  total_ = options.steps.value_or(options.epochs * order_->batchesPerEpoch() * perBatch);
  sectionSteps_ = options.evalEvery > 0
                      ? options.evalEvery
                      : std::max<std::int64_t>(1, (total_ + kSections - 1) / kSections);
}

void Session::makeExchange() {
  ExchangeSetup setup;
  setup.optimizer = optimizerOf(task_, plan_);
  setup.parameters =
      withOptimizers(replica_->parameters(), setup.optimizer, groupsOf(task_, plan_));
  if (!plan_.options.sparseAsDense) setup.rowSparse = replica_->model().rowSparse();
  setup.buffers = replica_->buffers();
  setup.numbers = replica_->numbers();
  setup.clipNorm = clipNormOf(task_, plan_);
  setup.policy = plan_.policy;
  if (setup.policy) setup.policy->workers = workers_->size();
  if (setup.policy && !plan_.rules.updatePerBatch) setup.policy->limit = total_;
  setup.options = plan_.options.strategyOptions;
  setup.chooseRoutes = plan_.chooseRoutes;
  setup.metrics = &metrics_;
  // The first batch comes again as the first step's.
  setup.look = [this](std::span<const Parameter> tables) {
    const std::int64_t batch = plan_.resumeStep.value_or(0);
    const SliceRange slices = workers_->slices();
    Feed feed(train_, *order_, slices, Feed::Advance::kSteps, batch, batch + 1);
    return replica_->touchedRows(tables, slices, batch, [&] { return feed.next(); });
  };
  exchange_ = train::makeExchange(plan_.strategy, *workers_, setup);
}

bool Session::saveIsDue(std::int64_t before) const {
  const TrainOptions& options = plan_.options;
  return (options.saveEvery > 0 && before / options.saveEvery != step_ / options.saveEvery) ||
         (options.saveSeconds > 0 && secondsSince(savedAt_) >= options.saveSeconds);
}

// `alone`: the section goes on, so no line of progress is coming that shows the result. `regular`
// as Watches::evaluated() has it.
void Session::evaluateNow(bool alone, bool regular) {
  exchange_
      ->refresh();  // A model may read more of a table than it looks up: lm's whole softmax does.
  tested_ = callUser([this] { return fmt::format("evaluation after step {}", step_); },
                     [this] {
                       return evaluateAll(*replica_, *workers_, test_, plan_, exchange_->rows(),
                                          /*alone=*/!plan_.rules.evaluateTogether);
                     });
  testedAt_ = step_;
  evaluationDue_ = regularDue_ = false;
  const Outcome shown = shownOf(*tested_);
  if (recorder_) {
    recorder_->evaluation(step_, shown, alone);
    callHooks("afterEvaluation", step_, [&](Hook& hook) {
      hook.afterEvaluation(progressOf(step_, *tested_, &stopReason_), replica_->model());
    });
  }
  std::vector<double> values = shown.metrics;
  values.insert(values.begin(), shown.loss);
  const Watches::Verdict verdict = watches_->evaluated(step_, values, regular);
  if (verdict.plateau && records()) log::info("step {}: {}", step_, watches_->plateauText());
  bestDue_ = verdict.best;
  if (stopReason_.empty()) stopReason_ = watches_->stops();
  if (!plan_.rules.evaluateTogether) return;  // The others get to know it with their next step.
  std::vector<std::int64_t> stops = {stopReason_.empty() ? 0 : 1};
  throwIfError(broadcast(workers_->group, stops, workers_->recorder));
  stopped_ = stops[0] != 0;
}

ps::Stop Session::wish() const {
  if (Interrupt::requested()) return ps::Stop::kInterrupted;
  return stopReason_.empty() ? ps::Stop::kNo : ps::Stop::kRequested;
}

void Session::heed(ps::Stop stop) {
  summary_.interrupted = stop == ps::Stop::kInterrupted;
  stopped_ = stop == ps::Stop::kRequested;
}

observe::Section Session::section() const {
  if (plan_.options.steps) return {.epoch = 0, .epochs = 0, .steps = total_, .already = step_};
  const data::Position position = feed_->position();
  return {.epoch = static_cast<int>(position.epoch + 1),
          .epochs = static_cast<int>(plan_.options.epochs),
          .steps = order_->batchesPerEpoch(),
          .already = position.batch};
}

bool Session::epochOfDataEnded(std::int64_t batch) const {
  return order_->position(batch).epoch != feed_->position().epoch;
}

// Training by steps has lines between its evaluations too: an epoch may be much longer.
bool Session::endsSection(std::int64_t before, std::int64_t batch) const {
  if (done() || epochOfDataEnded(batch)) return true;
  return plan_.options.steps && before / sectionSteps_ != step_ / sectionSteps_;
}

bool Session::evaluationIsDue(std::int64_t before, std::int64_t batch) const {
  const std::int64_t every = plan_.options.evalEvery;
  return every > 0 ? before / every != step_ / every : epochOfDataEnded(batch);
}

bool Session::done() const {
  if (stopped_) return true;
  if (plan_.options.steps) return step_ >= total_;
  if (plan_.rules.updatePerBatch && !plan_.options.strategyOptions.servers.requeueDropped)
    return step_ >= total_;
  return feed_->batch() >= plan_.options.epochs * order_->batchesPerEpoch() && !feed_->waits();
}

Outcome Session::shownOf(const Outcome& outcome) const {
  return callUser([this] { return fmt::format("step {}", step_); },
                  [&] { return replica_->shown(outcome); });
}

Progress Session::progressOf(std::int64_t step, const Outcome& outcome,
                             std::string* stopReason) const {
  return {.step = step,
          .epoch = order_->position(step).epoch,
          .loss = outcome.loss,
          .metrics = shownOf(outcome).metrics,
          .stopReason = stopReason};
}

// What servers dropped, and how stale gradients were.
void Session::reportStatistics() {
  if (!records() || !plan_.policy || plan_.policy->exact()) return;
  exchange_->awaitOthers(step_);  // What they bring last may still be dropped.
  const auto statistics = exchange_->statistics();
  if (!statistics) return;
  if (!plan_.rules.evaluateTogether) summary_.samples = statistics->samples;
  const std::string histogram = ps::histogram(statistics->staleness);
  log::info("{} gradients taken, {} dropped; their staleness in updates, and how often: {}",
            statistics->taken, statistics->dropped, histogram.empty() ? "none" : histogram);
}

// From batch `first` on.
Feed Session::makeFeed(std::int64_t first) const {
  Feed::Advance advance = Feed::Advance::kSteps;
  std::int64_t end = total_;
  if (!plan_.rules.updatePerBatch) {
    advance = Feed::Advance::kOwn;
  } else if (plan_.options.strategyOptions.servers.requeueDropped) {
    advance = Feed::Advance::kNoLoss;
  }
  if (advance != Feed::Advance::kSteps && !plan_.options.steps) {
    end = plan_.options.epochs * order_->batchesPerEpoch();
  }
  return Feed(train_, *order_, workers_->slices(), advance, first, end);
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
    const std::int64_t batch = feed_->batch();
    train(factor);

    const bool last = done();
    const bool sectionEnds = endsSection(before, batch) || summary_.interrupted;
    regularDue_ = regularDue_ || (test_ && evaluationIsDue(before, batch));
    evaluationDue_ = evaluationDue_ || last || regularDue_;
    saveDue_ = saveDue_ || saveIsDue(before);
    if (last && !summary_.interrupted) awaitOthers();
    const bool settled = exchange_->settled();
    if (evaluates() && evaluationDue_ && settled && !summary_.interrupted) {
      evaluateNow(/*alone=*/!sectionEnds, regularDue_);
    }
    if (recorder_) recorder_->endStep();
    if (sectionEnds || stopped_) endSection();
    if (settled) saveWhatIsDue();
  }
  gatherIdleWorkers();
  if (summary_.interrupted || stopped_) awaitOthers();
  save(step_);
  if (saver_) throwIfError(saver_->finish());
  return finish();
}

void Session::begin() {
  step_ = first_;
  if (!plan_.resumeStep) save(0);
  savedAt_ = SteadyClock::now();
  feed_.emplace(makeFeed(plan_.rules.updatePerBatch ? first_ : first_ / workers_->size()));
  begin_ = SteadyClock::now();
  // What the run that was interrupted owed.
  if (!evaluationDue_ || !evaluates()) return;
  evaluateNow(/*alone=*/true, regularDue_);
  saveWhatIsDue();
}

void Session::endEmptyRun() {
  if (records() && !stopped_) {
    log::info("step {} was the last one: nothing is left to train", step_);
  }
  if (!evaluates() || testedAt_ == step_) return;
  evaluateNow(/*alone=*/true, /*regular=*/false);
  saveWhatIsDue();
}

// This worker is through with the epoch; others still train samples that were dropped.
void Session::waitForEpoch(double factor) {
  exchange_->beginStep(wish());
  const StepResult result =
      exchange_->finish({.factor = factor, .plateau = watches_->plateau(), .empty = true});
  heed(result.stop);
  if (*result.step == step_) feed_->goOn();  // Nobody had anything left.
  step_ = *result.step;
}

void Session::beginSection() {
  if (inSection_) return;
  if (recorder_) recorder_->begin(section());
  mean_ = {};
  inSection_ = true;
}

void Session::callHooks(const char* name, std::int64_t step,
                        const std::function<void(Hook&)>& call) {
  for (const auto& hook : task_.hooks) {
    callUser([&] { return fmt::format("step {}: a hook's {}()", step, name); },
             [&] { call(*hook); });
  }
}

// One step of this worker: hooks, slices, exchange, records.
void Session::train(double factor) {
  if (records()) {
    callHooks("beforeStep", step_ + 1,
              [this](Hook& hook) { hook.beforeStep(step_, replica_->model()); });
  }
  const std::int64_t done = plan_.options.steps ? -1 : feed_->position().batch + 1;
  const std::int64_t ownSamples = feed_->ownSamples();
  saveAt_ = nextSave();
  const StepInput input{.step = step_ + 1,
                        .batch = feed_->batch(),
                        .samples = plan_.rules.ownMeans ? ownSamples : feed_->samples(),
                        .allSamples = feed_->samples(),
                        .allSlices = workers_->map.slices(),
                        .factor = factor,
                        .plateau = watches_->plateau(),
                        .saveAt = saveAt_,
                        .stop = wish(),
                        .last = step_ + 1 >= total_};
  // Where the others go on while this worker evaluates or saves, that is time of training.
  const double start = plan_.rules.evaluateTogether ? secondsSince(begin_) : summary_.seconds;
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
  heed(outcome.stop);
  record(done < 0 ? step_ : done, start, end, outcome);
}

void Session::record(std::int64_t done, double start, double end, const Outcome& outcome) {
  if (!recorder_) return;
  recorder_->step(step_, done, start, end, shownOf(outcome), shownOf(mean_.value()));
  callHooks("afterStep", step_, [&](Hook& hook) {
    hook.afterStep(progressOf(step_, outcome, &stopReason_), replica_->model());
  });
}

// The others go on while this worker has nothing left to do: what it saves and reports last is what
// they have come to together.
void Session::awaitOthers() {
  if (plan_.rules.evaluateTogether) return;
  if (records()) step_ = exchange_->awaitOthers(step_);
  summary_.seconds = secondsSince(begin_);
}

void Session::endSection() {
  inSection_ = false;
  if (!recorder_) return;
  const std::optional<Outcome> fresh =
      testedAt_ == step_ ? std::optional(shownOf(*tested_)) : std::nullopt;
  recorder_->end(shownOf(mean_.value()), fresh ? &*fresh : nullptr);
}

Summary Session::finish() {
  if (records() && !task_.hooks.empty()) exchange_->refresh();  // Hooks get a whole model.
  reportStatistics();
  exchange_->leave();
  summary_.steps = step_ - first_;
  if (stopped_ && records()) {
    summary_.stopReason = stopReason_;
    log::info("the run stops after step {}: {}", step_, stopReason_);
  }
  if (saver_ && saved_ >= 0) summary_.saved = saved_;
  summary_.train = progressOf(step_, mean_.value());
  if (tested_) summary_.test = progressOf(testedAt_, *tested_);
  if (recorder_) {
    recorder_->finish(summary_);
    callHooks("atEnd", step_,
              [this](Hook& hook) { hook.atEnd(summary_.train, replica_->model()); });
  }
  return summary_;
}

}  // namespace colla::train
