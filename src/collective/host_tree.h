// The canonical tree of a group that spans hosts, cut in two: what a host adds by itself, and the
// tree above that.
//
// A host's partial sums are the largest subtrees whose leaves are all its own: one where its ranks
// hold an aligned range of slices, a few where they hold another range, and one for each leaf where
// no two neighbours are on it. A pure function of who holds which slices and where; any spread of
// ranks over hosts gives the bits of the whole tree.
#pragma once

#include <span>
#include <vector>

#include "colla/topology.h"
#include "collective/sum_tree.h"

namespace colla::collective {

class HostTree {
 public:
  HostTree(const SumTree& tree, const Topology& topology);

  // Its ranks are the hosts, and its leaves their partial sums.
  const SumTree& above() const { return above_; }
  // What leaf number `leaf` of above() is the sum of: nodes of the whole tree, whose leaves have
  // the whole tree's numbers.
  std::span<const SumTree::Node> below(int leaf) const { return below_[leaf]; }

 private:
  SumTree above_;
  std::vector<std::span<const SumTree::Node>> below_;  // By leaf of above_.
};

}  // namespace colla::collective
