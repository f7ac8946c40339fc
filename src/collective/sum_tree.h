// The canonical tree of a reduction over the ranks of a group, down to what each rank brings.
//
// A leaf is one rank's partial sum (of a maximal subtree of its slices); the leaves are in the
// order of slices, and so in the order of ranks. Immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colla/slices.h"

namespace colla::collective {

class SumTree {
 public:
  struct Node {
    int rank;       // Of the leftmost leaf: the one who forms this node's value.
    int leaf = -1;  // Number of the leaf, or -1 for an inner node.
    int left = -1, right = -1;
  };

  // One slice for each of `ranks` ranks.
  static SumTree ofRanks(int ranks);
  // SliceMap::tree() is this, made already.
  static SumTree of(const SliceMap& map);

  // A hash of who has which slices; 0 for one slice per rank.
  std::uint32_t layout() const { return layout_; }
  // What an average divides by.
  int slices() const { return slices_; }
  int ranks() const { return static_cast<int>(firstLeaf_.size()) - 1; }
  int leaves() const { return firstLeaf_.back(); }
  // Rank r brings the leaves [firstLeaf(r), firstLeaf(r + 1)).
  int firstLeaf(int rank) const { return firstLeaf_[rank]; }
  int leavesOf(int rank) const { return firstLeaf_[rank + 1] - firstLeaf_[rank]; }

  // The most that a rank brings.
  int mostLeaves() const { return mostLeaves_; }

  // Children before parents; the root is last.
  std::span<const Node> nodes() const { return nodes_; }
  // Each rank brings one leaf, their number is a power of two, and the tree is complete: then
  // recursive halving adds in its order.
  bool complete() const { return complete_; }

 private:
  friend class HostTree;  // Makes one whose ranks are hosts.
  SumTree() = default;
  std::vector<Node> nodes_;
  std::vector<int> firstLeaf_;
  int slices_ = 0;
  int mostLeaves_ = 0;
  std::uint32_t layout_ = 0;
  bool complete_ = false;
};

}  // namespace colla::collective
