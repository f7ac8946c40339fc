// Sums gradients that have few rows, over the slices of a step and over all workers.
//
// A row is added along the canonical tree over slices, as every element of a whole gradient is; a
// slice that does not have it counts as +0.0. So the values are, bit for bit, those that a whole
// gradient would have in these rows. What travels is each worker's partial sums: as many rows as
// its slices touched.
//
// Not thread safe. No torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "colla/group.h"
#include "colla/slices.h"
#include "colla/status.h"
#include "collective/rows.h"
#include "collective/sum_tree.h"

namespace colla::train {

using collective::Rows;
using collective::RowsView;

class RowSums {
 public:
  // The worker is map's `rank`; widths[i] is the length of matrix i's rows.
  RowSums(SliceMap map, int rank, std::vector<std::size_t> widths);

  // What `slice`, one of the worker's, has for matrix `matrix`: values of `rows`, in any order and
  // as often as they come. At most once a step.
  void add(int matrix, int slice, std::span<const std::int64_t> rows,
           std::span<const float> values);

  // Ends the step of one matrix for those who exchange by themselves: this worker's partial sums,
  // one for each of its maximal subtrees.
  std::vector<Rows> takePartials(int matrix);
  // Ends the step: sums over all workers, who all call it.
  Status finish(Group& group);
  // Bytes that this worker gave to the others in the last finish(): numbers of rows, and values.
  std::size_t bytes() const {
    return std::span(myRows_).size_bytes() + std::span(myValues_).size_bytes();
  }
  // After finish(), until the next one.
  const Rows& sum(int matrix) const { return sums_[matrix]; }

 private:
  Rows fold(std::map<int, Rows>& slices, SliceRange range, std::size_t width) const;
  // Of each matrix, by subtree.
  using Partials = std::vector<std::vector<RowsView>>;
  Status exchange(Group& group, const std::vector<std::vector<Rows>>& mine, Partials& all);

  const SliceMap map_;
  const collective::SumTree tree_;
  const int rank_;
  const std::vector<std::size_t> widths_;
  // Every worker's maximal subtrees, in the order of slices, and where each worker's begin.
  std::vector<SliceRange> subtrees_;
  std::vector<std::size_t> firstSubtree_;
  std::vector<std::map<int, Rows>> slices_;  // Of each matrix, this step's.
  std::vector<Rows> sums_;
  // This step's on their way, this worker's and everybody's; kept, because memory that is new costs
  // more than what it is filled with.
  std::vector<std::int64_t> myRows_, rows_;
  std::vector<float> myValues_, values_;
};

}  // namespace colla::train
