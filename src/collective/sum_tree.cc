#include "collective/sum_tree.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "base/crc32c.h"

namespace colla::collective {
namespace {

struct Builder {
  const SliceMap& map;
  std::vector<SumTree::Node>& nodes;
  int rank = 0;
  int leaf = 0;
  int deepest = 0, shallowest = 1 << 30;

  // Appends the nodes of `range`, left to right, and returns the number of its root.
  int build(SliceRange range, int depth) {
    while (map.range(rank).end <= range.begin) ++rank;
    SumTree::Node node{.rank = rank};
    if (range.end <= map.range(rank).end) {
      node.leaf = leaf++;
      deepest = std::max(deepest, depth);
      shallowest = std::min(shallowest, depth);
    } else {
      const int middle = splitPoint(range);
      node.left = build({range.begin, middle}, depth + 1);
      node.right = build({middle, range.end}, depth + 1);
    }
    nodes.push_back(node);
    return static_cast<int>(nodes.size()) - 1;
  }
};

}  // namespace

SumTree SumTree::ofRanks(int ranks) {
  std::vector<int> first(ranks + 1);
  std::iota(first.begin(), first.end(), 0);
  SumTree tree = SliceMap::of(std::move(first))->tree();
  tree.layout_ = 0;
  return tree;
}

SumTree SumTree::of(const SliceMap& map) {
  SumTree tree;
  tree.slices_ = map.slices();
  for (int worker = 0; worker < map.workers(); ++worker) {
    const SliceRange range = map.range(worker);
    tree.layout_ = crc32c(std::as_bytes(std::span(&range, 1)), tree.layout_);
  }
  Builder builder{map, tree.nodes_};
  builder.build({0, map.slices()}, 0);

  tree.firstLeaf_.assign(map.workers() + 1, 0);
  for (const Node& node : tree.nodes_) {
    if (node.leaf >= 0) ++tree.firstLeaf_[node.rank + 1];
  }
  std::partial_sum(tree.firstLeaf_.begin(), tree.firstLeaf_.end(), tree.firstLeaf_.begin());
  tree.complete_ = tree.leaves() == map.workers() && builder.deepest == builder.shallowest &&
                   std::has_single_bit(static_cast<unsigned>(map.workers()));
  for (int worker = 0; worker < map.workers(); ++worker) {
    tree.mostLeaves_ = std::max(tree.mostLeaves_, tree.leavesOf(worker));
  }
  return tree;
}

}  // namespace colla::collective
