// How a training goes on with different workers, between two steps.
//
// What workers hold moves with them: the model in memory of their own, the optimizer's state as
// copies of which the next rank 0's counts, and what servers hold on the servers. So every process
// leaves its exchange, replaces the epoch together with all others, and makes a new exchange if the
// new epoch has a place for it. A worker without a place waits in the same call until a later
// epoch, or the end of the run, takes it back.
#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "train/session.h"
#include "train/state.h"

namespace colla::train {

// Whether the training goes on with different workers, of which this one may not be one until the
// run is over.
bool Session::epochEnds() {
  if (!nextEpoch_ || askedAt_ == step_ || !exchange_->settled()) return false;
  askedAt_ = step_;
  const auto next = nextEpoch_(step_);
  if (next) changeEpoch(*next);
  return next.has_value();
}

// The one call that replaces the epoch.
void Session::changeEpoch(const EpochPlan& plan) {
  const ServerOptions& servers = plan_.options.strategyOptions.servers;
  if (!plan_.rules.updatePerBatch || servers.requeueDropped ||
      servers.partitions == ServerOptions::kAutoPartitions || plan_.chooseRoutes ||
      (!plan_.rules.evaluateTogether && (watches_->any() || plan.recorder != 0))) {
    throw Error(StatusCode::kUnsupported,
                "the workers of a training can change where they go from batch to batch together, "
                "partitions and routes are not chosen by measurement, and, unless all evaluate, "
                "the first one records and nothing depends on evaluations");
  }
  throwIfError(job_.checkEpoch(plan));  // Before anything is given up.
  const auto began = SteadyClock::now();
  leaveEpoch(plan);
  throwIfError(job_.replaceEpoch(plan));
  const bool stays = job_.epoch().takesPart();
  enterEpoch();
  if (!stays) return;  // It was idle in between.
  const auto took = SteadyClock::now() - began;
  metrics_.epochReplaced(took);
  if (!records()) return;
  log::debug("step {}: epoch {} with {} workers began after {:.2f} ms", step_, epoch_.number(),
             epoch_.workers(), std::chrono::duration<double, std::milli>(took).count());
}

// A worker that will not record any more closes its files before another one opens them.
void Session::leaveEpoch(const EpochPlan& next) {
  if (saver_) throwIfError(saver_->finish());  // It may still read what servers hold.
  replica_->ownTensors();
  optimizer_ = exchange_->leaveEpoch();
  exchange_.reset();
  if (!recorder_ || next.workers[static_cast<std::size_t>(next.recorder)] == job_.rank()) return;
  saver_.reset();
  recorder_->flush();
  recorder_.reset();
}

// A worker that the epoch has no use for waits here until a later one has.
void Session::enterEpoch() {
  workers_.reset();
  for (epoch_ = job_.epoch(); !epoch_.takesPart(); epoch_ = job_.epoch()) {
    // A training may last; the loss of any process ends the wait at once, with its name.
    constexpr std::chrono::days kLongestTraining{365};
    throwIfError(job_.replaceEpoch(std::nullopt, kLongestTraining));
  }
  workers_.emplace(Workers::of(job_, epoch_));
  shareProgress();
  broadcastModel(workers_->group, *replica_);
  makeExchange();
  exchange_->enterEpoch(step_, viewsOf(optimizer_));
  optimizer_.clear();
  feed_.emplace(makeFeed(step_));
  inSection_ = false;
  if (!records() || recorder_) return;
  plan_.resumeStep = step_;  // The new recorder goes on with the files of the old one.
  startRecords(ownDirectory());
}

// Rank 0 was in the epoch before: what it knows of the run becomes everybody's.
void Session::shareProgress() {
  std::vector<std::int64_t> known = {
      step_, first_, saved_, summary_.samples, summary_.interrupted ? 1 : 0, stopped_ ? 1 : 0};
  throwIfError(broadcast(workers_->group, known, 0));
  step_ = askedAt_ = known[0];
  first_ = known[1];
  saved_ = known[2];
  summary_.samples = known[3];
  summary_.interrupted = known[4] != 0;
  stopped_ = known[5] != 0;
  std::vector<double> watched = watches_->numbers();
  throwIfError(broadcast(workers_->group, watched, 0));
  watches_->setNumbers(watched);
}

// Workers that are idle when the training ends take part in its end, with the present ones first.
void Session::gatherIdleWorkers() {
  if (epoch_.workers() == job_.size()) return;
  EpochPlan everybody;
  everybody.workers.assign(epoch_.processes().begin(), epoch_.processes().end());
  everybody.recorder = epoch_.recorder();
  for (int worker = 0; worker < job_.size(); ++worker) {
    if (std::ranges::find(everybody.workers, worker) == everybody.workers.end()) {
      everybody.workers.push_back(worker);
    }
  }
  changeEpoch(everybody);
}

}  // namespace colla::train
