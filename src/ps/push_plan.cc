#include "ps/push_plan.h"

#include <string>
#include <utility>
#include <vector>

namespace colla::ps {

PushPlan::PushPlan(SliceMap slices, std::span<const int> hosts) : slices_(std::move(slices)) {
  if (hosts.empty()) return;
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(std::to_string(host));
  topology_.emplace(names, /*sharedMemory=*/true);
  host_.emplace(slices_.tree(), *topology_);
}

}  // namespace colla::ps
