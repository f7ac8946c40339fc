#include "colla/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/check.h"
#include "collective/sum_tree.h"

namespace colla {
namespace {

// Appends the maximal subtrees of `wanted` that lie below `node`.
void collectSubtrees(SliceRange node, SliceRange wanted, std::vector<SliceRange>& out) {
  if (wanted.end <= node.begin || node.end <= wanted.begin) return;
  if (wanted.begin <= node.begin && node.end <= wanted.end) {
    out.push_back(node);
    return;
  }
  const int middle = splitPoint(node);
  collectSubtrees({node.begin, middle}, wanted, out);
  collectSubtrees({middle, node.end}, wanted, out);
}

// The multiple of the highest power of two in [low, high].
std::int64_t roundest(std::int64_t low, std::int64_t high) {
  std::int64_t result = high;
  for (std::int64_t bit = 1; (result & ~bit) >= low; bit *= 2) result &= ~bit;
  return result;
}

}  // namespace

int splitPoint(SliceRange range) {
  COLLA_DCHECK(range.size() >= 2);
  return range.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(range.size()) - 1));
}

SliceMap::SliceMap(std::vector<int> first)
    : first_(std::move(first)),
      tree_(std::make_shared<const collective::SumTree>(collective::SumTree::of(*this))) {}

// The cuts of the tree that lie high up are at multiples of high powers of two, and a cut there
// leaves the fewest subtrees torn. So each worker in turn, from the left, ends at the highest such
// multiple that it can reach with at most ⌈S/n⌉ slices, while leaving those behind it enough room
// for the rest, and a slice each. O(log S) per worker.
Result<SliceMap> SliceMap::even(int slices, int workers) {
  if (workers < 1 || slices < workers) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} workers can't share {} slices: a worker runs at least one; start with "
                        "fewer workers or more slices",
                        workers, slices)};
  }
  const std::int64_t most = (std::int64_t{slices} + workers - 1) / workers;
  std::vector<int> first = {0};
  for (int behind = workers - 1; behind > 0; --behind) {
    const std::int64_t low = std::max(first.back() + std::int64_t{1}, slices - behind * most);
    const std::int64_t high = std::min<std::int64_t>(first.back() + most, slices - behind);
    first.push_back(static_cast<int>(roundest(low, high)));
  }
  first.push_back(slices);
  return SliceMap(std::move(first));
}

Result<SliceMap> SliceMap::of(std::vector<int> first) {
  const bool rises = std::ranges::adjacent_find(first, std::greater_equal<>()) == first.end();
  if (first.size() < 2 || first.front() != 0 || !rises) {
    return {StatusCode::kInvalidArgument,
            "a map of slices starts at 0 and gives every worker at least one slice"};
  }
  return SliceMap(std::move(first));
}

std::vector<SliceRange> SliceMap::subtrees(int worker) const {
  std::vector<SliceRange> out;
  collectSubtrees({0, slices()}, range(worker), out);
  return out;
}

}  // namespace colla
