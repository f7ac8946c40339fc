#include "train/exchange/bucket_plan.h"

#include <algorithm>

namespace colla::train {
namespace {

constexpr std::size_t kLine = 64;

std::size_t roundUp(std::size_t count, DataType type) {
  const std::size_t elements = kLine / sizeOf(type);
  return (count + elements - 1) / elements * elements;
}

}  // namespace

BucketPlans planBuckets(std::span<const Extent> entries, std::span<const int> order,
                        std::size_t bytes) {
  std::vector<BucketPlan> plans;
  std::vector<BucketPlan> open;  // At most one of each type.
  for (const int entry : order) {
    const Extent& extent = entries[entry];
    auto plan = std::ranges::find(open, extent.type, &BucketPlan::type);
    if (plan == open.end()) {
      open.push_back({.type = extent.type, .members = {}, .flags = 0, .count = 0});
      plan = open.end() - 1;
    }
    plan->members.push_back({entry, plan->count});
    plan->count += roundUp(extent.count, extent.type);
    if (plan->count * sizeOf(extent.type) >= bytes) {
      plans.push_back(std::move(*plan));
      open.erase(plan);
    }
  }
  const std::size_t tail = std::max<std::size_t>(open.size(), plans.empty() ? 0 : 1);
  std::ranges::move(open, std::back_inserter(plans));
  for (BucketPlan& plan : plans) {
    plan.flags = plan.count;
    plan.count += plan.members.size();
  }
  return {std::move(plans), tail};
}

}  // namespace colla::train
