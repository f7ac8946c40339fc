#include "ps/policy_ssp.h"

#include <algorithm>
#include <limits>

namespace colla::ps {

SspPolicy::SspPolicy(const PolicyOptions& options, std::int64_t step)
    : options_(options), step_(step) {
  for (int worker = 0; worker < options.workers; ++worker) clocks_[worker] = 0;
}

std::vector<Decision> SspPolicy::arrived(const Arrival& arrival, TimePoint /*now*/) {
  ++clocks_[arrival.worker];
  waiting_.insert(arrival.worker);
  Decision decision{.whole = false};
  if (!arrival.empty && (!options_.limit || step_ < *options_.limit)) {
    decision.take = {arrival.worker};
    ++step_;
  }
  decision.release = released();
  return {decision};
}

Result<std::vector<Decision>> SspPolicy::gone(int worker, bool finished, TimePoint /*now*/) {
  clocks_.erase(worker);
  waiting_.erase(worker);
  if (clocks_.empty() && !finished) return {StatusCode::kPeerLost, "no worker is left"};
  return std::vector<Decision>{{.release = released(), .whole = false}};
}

std::int64_t SspPolicy::slowest() const {
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  for (const auto& [worker, clock] : clocks_) slowest = std::min(slowest, clock);
  return slowest;
}

// Those that are not too far ahead.
std::vector<int> SspPolicy::released() {
  std::vector<int> free;
  for (const int worker : waiting_) {
    if (clocks_[worker] - slowest() <= options_.staleness) free.push_back(worker);
  }
  for (const int worker : free) waiting_.erase(worker);
  return free;
}

std::vector<int> SspPolicy::waitsFor() const {
  std::vector<int> behind;
  if (waiting_.empty()) return behind;
  for (const auto& [worker, clock] : clocks_) {
    if (clock == slowest()) behind.push_back(worker);
  }
  return behind;
}

}  // namespace colla::ps
