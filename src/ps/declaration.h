// What the workers of a job train, as each of them declares it to every server.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "colla/optimizer.h"
#include "colla/status.h"
#include "optim/update_rule.h"
#include "ps/layout.h"
#include "ps/policy.h"
#include "ps/push_plan.h"

namespace colla::ps {

struct Declaration {
  std::vector<Entry> entries;
  Layout::Options layout;
  OptimizerOptions optimizer;  // Of entries that have none of their own.
  PolicyOptions policy;
  double clipNorm = 0;
  std::vector<int> firstSlices;  // SliceMap::of().
  // By worker, the host that it is on: the workers of a host add their gradients before any leaves
  // it. Only for an exact policy. Empty: each worker sends its own.
  std::vector<int> hosts;
  int threads = 0;  // Of each worker: bits depend on it.
};
std::vector<std::byte> encode(const Declaration& declaration);
// kInvalidArgument with what is wrong.
Result<Declaration> decodeDeclaration(std::span<const std::byte> bytes);

// Who has which slices, and who pushes what. kInvalidArgument if they don't fit the policy.
Result<PushPlan> pushPlanOf(const Declaration& declaration);
// The rule that changes each entry. kInvalidArgument for an optimizer's number that can't be used.
Result<std::vector<optim::UpdateRule>> rulesOf(const Declaration& declaration);
// How many slots the rule with the most of them has.
int mostSlots(std::span<const optim::UpdateRule> rules);

}  // namespace colla::ps
