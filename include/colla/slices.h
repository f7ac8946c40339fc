// Which logical slices of the global batch each worker runs, and the tree along which their
// gradients are added.
//
// The canonical tree over slices 0..S-1 splits every range at the largest power of two below its
// length. It depends on S alone: a sum along it has the same bits whoever holds which slice. A
// worker brings one partial sum for each maximal subtree of its range.
#pragma once

#include <memory>
#include <vector>

#include "colla/status.h"

namespace colla {

// Slices [begin, end).
struct SliceRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  friend bool operator==(const SliceRange&, const SliceRange&) = default;
};

// Where the canonical tree cuts a range of two slices or more: the left part is
// [begin, splitPoint), the right part [splitPoint, end).
int splitPoint(SliceRange range);

namespace collective {
class SumTree;
}

// Immutable, and a plan as well: it holds the tree of its sums, made once, so that a collective
// over it prepares nothing.
class SliceMap {
 public:
  // No worker has more than slices / workers, rounded up; within that, few partial sums.
  // kInvalidArgument when there are more workers than slices.
  static Result<SliceMap> even(int slices, int workers);
  // Worker r runs [first[r], first[r + 1]); `first` starts at 0, rises, and ends with the number
  // of slices.
  static Result<SliceMap> of(std::vector<int> first);

  int slices() const { return first_.back(); }
  int workers() const { return static_cast<int>(first_.size()) - 1; }
  SliceRange range(int worker) const { return {first_[worker], first_[worker + 1]}; }
  // The maximal subtrees of the worker's range, in ascending order.
  std::vector<SliceRange> subtrees(int worker) const;
  // Down to what each worker brings.
  const collective::SumTree& tree() const { return *tree_; }

 private:
  explicit SliceMap(std::vector<int> first);
  std::vector<int> first_;
  std::shared_ptr<const collective::SumTree> tree_;
};

}  // namespace colla
