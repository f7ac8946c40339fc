// What a run goes on from, and what it saves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "checkpoint/directory.h"
#include "checkpoint/restore.h"
#include "colla/error.h"
#include "train/interrupt.h"
#include "train/session.h"
#include "train/state.h"
#include "train/user_code.h"

namespace colla::train {
namespace {

// In a manifest: the step was saved without the evaluation that is due after it.
constexpr char kEvaluationDue[] = "evaluation_due";

Status notFinite(const std::string& what, const std::string& tensor, const std::string& offer) {
  const std::string where = tensor.empty()
                                ? "all tensors are finite"
                                : fmt::format("the first tensor that is not finite is {}", tensor);
  return {StatusCode::kInvalidArgument,
          fmt::format("{}; {}: try a lower --lr or --clip-norm{}", what, where, offer)};
}

std::string notSaved(std::int64_t step) { return fmt::format("step {} is not saved", step); }

// The saved state of the optimizer, without what only a different strategy's exchange can use.
std::vector<checkpoint::TensorView> stateFor(Strategy strategy, const checkpoint::Loaded& loaded) {
  std::vector<checkpoint::TensorView> kept;
  std::string foreign;
  for (const checkpoint::TensorView& view : loaded.optimizer()) {
    if (isForeignState(strategy, view.name)) {
      foreign = view.name;
    } else {
      kept.push_back(view);
    }
  }
  if (!foreign.empty()) {
    log::warn("the checkpoint's {} is left out: --strategy {} has none",
              foreign.substr(foreign.rfind('/') + 1), toString(strategy));
  }
  return kept;
}

}  // namespace

// Every process has read the manifest, so all of them go on with what its run has seen.
void Session::watchEvaluations() {
  watches_ = watchesOf(replica_->model(), plan_.options, schedule_, test_ != nullptr);
  watches_->restore(plan_.resumed);
  regularDue_ = evaluationDue_ = test_ && plan_.resumed.contains(kEvaluationDue);
  stopReason_ = watches_->stops();  // The run had stopped by itself before,
  stopped_ = !stopReason_.empty();  // as all workers know.
}

std::optional<checkpoint::Directory> Session::ownDirectory() const {
  if (plan_.options.directory.empty() || !records()) return std::nullopt;
  checkpoint::Directory directory(checkpointsOf(plan_.options.directory));
  throwIfError(directory.own());
  return directory;
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
    remarkBest(directory);
  }
  checkpoint::SaverOptions saver;
  saver.keep = plan_.options.keep;
  if (plan_.resumeStep) Interrupt::saved(*plan_.resumeStep);
  saver.afterSave = [this](const checkpoint::Saved& saved, double seconds) {
    Interrupt::saved(saved.step);
    log::debug("saved {} in {:.3f} s", saved.path, seconds);
    for (const auto& hook : task_.hooks) hook->afterSave(saved.step, saved.path);
  };
  saver_ = std::make_unique<checkpoint::Saver>(std::move(directory), std::move(saver));
}

// The best checkpoint that the run knows of may be marked no more, or not yet, or may be gone: the
// run goes on from an earlier step, or was killed.
void Session::remarkBest(checkpoint::Directory& directory) {
  if (plan_.options.keepBest.empty()) return;
  const auto known = watches_->bestStep();
  const bool there = known && std::ranges::count(valueOrThrow(directory.list()), *known) > 0;
  if (known && !there) watches_->keptBest(std::nullopt);
  throwIfError(directory.markBest(there ? known : std::nullopt));
}

checkpoint::Manifest Session::manifest(std::int64_t step) const {
  const data::Position position =
      order_->position(plan_.rules.updatePerBatch ? step : step / workers_->size());
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
  manifest.extra = watches_->state();
  if (regularDue_) manifest.extra[kEvaluationDue] = "true";
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

// Servers may be further on than this worker knows: the checkpoint is of their step, or of the step
// that they were announced.
void Session::save(std::int64_t step, bool best) {
  saveDue_ = false;
  const std::int64_t announced = std::exchange(saveAt_, -1);
  if (!saver_) return;
  if (saved_ == step && best) throwIfError(saver_->markBest(step));
  if (saved_ == step) return;
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
  const bool passed = announced >= 0 && announced <= step && !best;
  const ExchangeState state =
      callUser([&] { return fmt::format("the save of step {}", step); },
               [&] { return exchange_->state(passed ? announced : step, refusal); });
  if (best) watches_->keptBest(state.step);
  if (saved_ == state.step && !best) return;
  saveState(*saver_, manifest(state.step), *replica_, state, best);
  saved_ = state.step;
  savedAt_ = SteadyClock::now();
}

// Where servers do not wait for this worker, the step that was announced and the best one, which
// they are at by now, are two.
void Session::saveWhatIsDue() {
  const bool best = std::exchange(bestDue_, false);
  if (saveDue_ && !(best && plan_.rules.evaluateTogether)) save(step_);
  if (best) save(step_, /*best=*/true);
}

// Where servers do not wait for this worker, others pass the step that is to be saved while it is
// busy: they take the copy then, if the one before has been read.
std::int64_t Session::nextSave() const {
  const std::int64_t every = plan_.options.saveEvery;
  if (plan_.rules.evaluateTogether || every == 0 || !saver_ || saver_->busy()) return -1;
  return (step_ / every + 1) * every;
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

}  // namespace colla::train
