#include "ps/policy_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace colla::ps {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kTimes = 20;       // Steps that the median is taken of.
constexpr std::size_t kFewestTimes = 5;  // Before that nobody is called a straggler.
constexpr std::chrono::nanoseconds kLeastPatience = 50ms;
constexpr int kPatienceFactor = 3;

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

SyncPolicy::SyncPolicy(const PolicyOptions& options, std::int64_t step)
    : options_(options), step_(step) {
  for (int worker = 0; worker < options.workers; ++worker) there_.insert(worker);
}

std::vector<Decision> SyncPolicy::arrived(const Arrival& arrival, TimePoint now) {
  const int worker = arrival.worker;
  if (arrival.step < step_) {
    // As fast as the others again, but never in time: it began after them.
    if (left_.contains(worker) && now - released_[worker] <= patience()) isBack(worker);
    released_[worker] = now;
    Decision decision{.release = {worker}};
    if (!arrival.empty) decision.drop.push_back({worker, arrival.step, step_ - arrival.step});
    return {decision};
  }
  (arrival.empty ? empty_ : in_).insert(worker);
  lastArrival_ = now;
  if (left_.contains(worker)) isBack(worker);
  if (!complete()) return {};
  return {update(now)};
}

void SyncPolicy::isBack(int worker) {
  left_.erase(worker);
  tell(fmt::format("worker {} keeps pace again: steps wait for it from step {} on", worker,
                   step_ + 1));
}

// Those that are there and need not be waited for.
std::size_t SyncPolicy::backups() const {
  if (automatic()) return left_.size();
  const auto backup = static_cast<std::size_t>(options_.backup);
  return backup - std::min(lost_.size(), backup);
}

// Enough of those that have samples.
bool SyncPolicy::complete() const {
  const std::size_t candidates = there_.size() - empty_.size();
  if (candidates == 0) return true;
  // Backups are for steps in which everybody has samples: a last few are all waited for.
  const std::size_t needed =
      empty_.empty() ? candidates - std::min(backups(), candidates - 1) : candidates;
  return in_.size() >= needed;
}

Decision SyncPolicy::update(TimePoint now) {
  Decision decision;
  decision.whole = options_.consistency == Consistency::kSync;
  decision.take.assign(in_.begin(), in_.end());
  decision.release = decision.take;
  decision.release.insert(decision.release.end(), empty_.begin(), empty_.end());
  for (const int worker : decision.release) released_[worker] = now;
  if (!in_.empty()) {
    ++step_;
    if (stepBegan_ != TimePoint{}) {
      times_.push_back(now - stepBegan_);
      if (times_.size() > kTimes) times_.pop_front();
    }
    stepBegan_ = now;
  }
  in_.clear();
  empty_.clear();
  lastArrival_ = TimePoint::max();
  return decision;
}

Result<std::vector<Decision>> SyncPolicy::gone(int worker, bool finished, TimePoint now) {
  there_.erase(worker);
  in_.erase(worker);
  empty_.erase(worker);
  left_.erase(worker);
  if (!finished) {
    lost_.insert(worker);
    const int spare = options_.spare();
    if (static_cast<int>(lost_.size()) > spare) {
      return {StatusCode::kPeerLost,
              options_.consistency == Consistency::kSsp ? std::string("no worker is left")
              : spare == 0 ? std::string("a step waits for every worker: start with --backup N "
                                         "to go on without up to N of them")
              : automatic()
                  ? std::string("--backup auto lets no more than half of the workers be lost")
                  : fmt::format("--backup {} lets no more than that be lost", spare)};
    }
    if (left_.size() + lost_.size() > static_cast<std::size_t>(spare)) waitAgain(worker);
  }
  const bool waiting = !in_.empty() || !empty_.empty();
  if (there_.empty() || !waiting || !complete()) return std::vector<Decision>();
  return std::vector<Decision>{update(now)};
}

// Not everybody that was left behind can be done without now.
void SyncPolicy::waitAgain(int lost) {
  for (const int worker : std::exchange(left_, {})) {
    tell(
        fmt::format("steps wait for worker {} again: worker {} is lost, and no more than half of "
                    "the workers can be done without",
                    worker, lost));
  }
}

std::vector<int> SyncPolicy::waitsFor() const {
  std::vector<int> missing;
  for (const int worker : there_) {
    if (!in_.contains(worker) && !empty_.contains(worker) && !left_.contains(worker)) {
      missing.push_back(worker);
    }
  }
  return missing;
}

std::chrono::nanoseconds SyncPolicy::patience() const {
  auto times = times_;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return std::max(kLeastPatience, kPatienceFactor * *middle);
}

TimePoint SyncPolicy::nextDeadline() const {
  if (!automatic() || in_.empty() || times_.size() < kFewestTimes) return TimePoint::max();
  const std::size_t late = waitsFor().size();
  const std::size_t without = lost_.size() + left_.size() + late;
  const bool few = late > 0 && without * 2 <= there_.size() + lost_.size();
  return few ? lastArrival_ + patience() : TimePoint::max();
}

std::vector<Decision> SyncPolicy::tick(TimePoint now) {
  if (now < nextDeadline()) return {};
  for (const int late : waitsFor()) {
    tell(fmt::format(
        "worker {} is a straggler: step {} has waited {:.0f} ms for it, and {:.0f} ms ({} x the "
        "median step, 50 ms at least) is the limit; steps go on without it until it keeps pace",
        late, step_ + 1, milliseconds(now - lastArrival_), milliseconds(patience()),
        kPatienceFactor));
    left_.insert(late);
  }
  if (!complete()) return {};
  return {update(now)};
}

}  // namespace colla::ps
