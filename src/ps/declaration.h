// What the workers of a job train, as each of them declares it to every server.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "colla/optimizer.h"
#include "colla/status.h"
#include "ps/layout.h"
#include "ps/policy.h"

namespace colla::ps {

struct Declaration {
  std::vector<Entry> entries;
  Layout::Options layout;
  OptimizerOptions optimizer;
  PolicyOptions policy;
  double clipNorm = 0;
  std::vector<int> firstSlices;  // SliceMap::of().
  int threads = 0;               // Of each worker: bits depend on it.
};
std::vector<std::byte> encode(const Declaration& declaration);
// kInvalidArgument with what is wrong.
Result<Declaration> decodeDeclaration(std::span<const std::byte> bytes);

}  // namespace colla::ps
