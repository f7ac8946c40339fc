#include "named/fusion.h"

#include <bit>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace colla::named {
namespace {

constexpr std::size_t kLine = 64;

// Factors by their bits: those that are not numbers have no order.
using Likeness = std::tuple<int, DataType, Op, std::uint64_t, std::uint64_t>;
Likeness likenessOf(const Announcement& what) {
  return {what.key.set, what.type, what.op, std::bit_cast<std::uint64_t>(what.prescale),
          std::bit_cast<std::uint64_t>(what.postscale)};
}

// Adasum's factors are of one tensor each.
bool fusible(const Decision& decision) {
  return decision.what.kind == Kind::kAllreduce && decision.what.op != Op::kAdasum;
}

}  // namespace

std::size_t paddedBytes(const Announcement& what) {
  const auto elements = elementsOf(what.shape, what.type).value_or(0);
  const std::size_t bytes = static_cast<std::size_t>(elements) * sizeOf(what.type);
  return (bytes + kLine - 1) / kLine * kLine;
}

std::vector<Batch> planFusion(std::vector<Decision> decisions, std::size_t most) {
  struct Open {
    std::size_t batch;
    std::size_t bytes;
  };
  std::vector<Batch> batches;
  std::map<Likeness, Open> open;
  for (Decision& decision : decisions) {
    const bool fence = !decision.error.ok() || decision.what.key.set == kOwnSet;
    if (fence) open.clear();
    const bool joins = !fence && fusible(decision);
    const std::size_t bytes = joins ? paddedBytes(decision.what) : 0;
    if (joins && bytes <= most) {
      const auto it = open.find(likenessOf(decision.what));
      if (it != open.end() && bytes <= most - it->second.bytes) {
        it->second.bytes += bytes;
        batches[it->second.batch].push_back(std::move(decision));
        continue;
      }
      open[likenessOf(decision.what)] = {batches.size(), bytes};
    }
    batches.emplace_back().push_back(std::move(decision));
  }
  return batches;
}

}  // namespace colla::named
