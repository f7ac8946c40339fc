// Sync: the gradients of a step make one update. With b backup workers the first n - b of them do;
// what comes later is dropped.
//
// A worker without samples brings nothing: a step waits for it as little as for a backup worker, so
// that those who have samples left can finish them.
//
// `auto`: a step waits for everybody until one keeps the others waiting for longer than
// max(50 ms, 3 x the median time of the last steps), counted from the arrival of the last of the
// others. From then on steps don't wait for that worker, until a step takes it no longer than that
// again. A worker that is lost has been left behind for good, so no run depends on whether its loss
// or its lateness is noticed first. At most half of the workers are left behind or lost.
//
// SSP without staleness is the same but for lost workers: their clocks are retired, the others' go
// on.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "ps/policy.h"

namespace colla::ps {

class SyncPolicy final : public Policy {
 public:
  SyncPolicy(const PolicyOptions& options, std::int64_t step);

  std::vector<Decision> arrived(const Arrival& arrival, TimePoint now) override;
  Result<std::vector<Decision>> gone(int worker, bool finished, TimePoint now) override;
  std::vector<Decision> tick(TimePoint now) override;
  TimePoint nextDeadline() const override;
  std::vector<int> waitsFor() const override;

 private:
  bool automatic() const { return options_.backup == PolicyOptions::kAuto; }
  std::size_t backups() const;
  bool complete() const;
  Decision update(TimePoint now);
  void isBack(int worker);
  void waitAgain(int lost);
  std::chrono::nanoseconds patience() const;

  const PolicyOptions options_;
  std::int64_t step_;
  std::set<int> there_;                // Workers that have not gone.
  std::set<int> lost_;                 // Those that went without having finished.
  std::set<int> in_;                   // Of the present step, with samples,
  std::set<int> empty_;                // and without.
  std::set<int> left_;                 // Stragglers that steps don't wait for: auto alone.
  std::map<int, TimePoint> released_;  // When each last got parameters.
  TimePoint stepBegan_{};
  TimePoint lastArrival_ = TimePoint::max();
  std::deque<std::chrono::nanoseconds> times_;  // Of the last steps.
};

}  // namespace colla::ps
