// Stale synchronous: gradients are applied as they come, each scaled by its share of the batch; a
// worker waits when it is more than s steps ahead of the slowest.
#pragma once

#include <set>

#include "ps/policy.h"

namespace colla::ps {

class SspPolicy final : public Policy {
 public:
  SspPolicy(const PolicyOptions& options, std::int64_t step);

  std::vector<Decision> arrived(const Arrival& arrival, TimePoint now) override;
  Result<std::vector<Decision>> gone(int worker, bool finished, TimePoint now) override;
  std::vector<int> waitsFor() const override;

 private:
  std::int64_t slowest() const;
  std::vector<int> released();

  const PolicyOptions options_;
  std::int64_t step_;
  std::map<int, std::int64_t> clocks_;  // Of those that are still there.
  std::set<int> waiting_;
};

}  // namespace colla::ps
