#include "colla/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

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

}  // namespace

int splitPoint(SliceRange range) {
  COLLA_DCHECK(range.size() >= 2);
  return range.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(range.size()) - 1));
}

// Dynamic programming over the cuts: best[w][s] is the fewest partial sums with which the first w
// workers cover the first s slices, none of them holding more than ⌈S/n⌉. A worker's cost is the
// number of its subtrees; O(S²) ranges in all.
Result<SliceMap> SliceMap::even(int slices, int workers) {
  if (workers < 1 || slices < workers) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} workers can't share {} slices: a worker runs at least one; start with "
                        "fewer workers or more slices",
                        workers, slices)};
  }
  const int most = (slices + workers - 1) / workers;
  constexpr int kNever = std::numeric_limits<int>::max();
  const auto at = [columns = slices + 1](int worker, int slice) {
    return static_cast<std::size_t>(worker) * columns + slice;
  };
  std::vector<int> best(at(workers, slices) + 1, kNever);
  std::vector<int> cut(best.size(), 0);
  best[at(0, 0)] = 0;
  std::vector<SliceRange> pieces;
  for (int end = 1; end <= slices; ++end) {
    for (int begin = std::max(0, end - most); begin < end; ++begin) {
      pieces.clear();
      collectSubtrees({0, slices}, {begin, end}, pieces);
      const int cost = static_cast<int>(pieces.size());
      for (int worker = 1; worker <= std::min(workers, end); ++worker) {
        const int before = best[at(worker - 1, begin)];
        if (before == kNever || before + cost >= best[at(worker, end)]) continue;
        best[at(worker, end)] = before + cost;
        cut[at(worker, end)] = begin;
      }
    }
  }
  std::vector<int> first(workers + 1, slices);
  for (int worker = workers; worker > 0; --worker) {
    first[worker - 1] = cut[at(worker, first[worker])];
  }
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
