// Async: gradients are applied as they come.
#pragma once

#include "ps/policy.h"

namespace colla::ps {

class AsyncPolicy final : public Policy {
 public:
  AsyncPolicy(const PolicyOptions& options, std::int64_t step)
      : options_(options), step_(step), left_(options.workers) {}

  std::vector<Decision> arrived(const Arrival& arrival, TimePoint /*now*/) override {
    const std::int64_t late = step_ - arrival.step;
    Decision decision{.release = {arrival.worker}};
    if (arrival.empty || (options_.limit && step_ >= *options_.limit)) return {decision};
    if (options_.maxStaleness && late > *options_.maxStaleness) {
      decision.drop.push_back({arrival.worker, arrival.step, late});
      return {decision};
    }
    decision.take = {arrival.worker};
    ++step_;
    return {decision};
  }

  Result<std::vector<Decision>> gone(int /*worker*/, bool finished, TimePoint /*now*/) override {
    if (--left_ == 0 && !finished) return {StatusCode::kPeerLost, "no worker is left"};
    return std::vector<Decision>();
  }

 private:
  const PolicyOptions options_;
  std::int64_t step_;
  int left_;
};

}  // namespace colla::ps
