// Some rows of a matrix, and their sums along the canonical tree.
//
// A row is added as every element of a whole matrix would be; who does not have it counts as +0.0.
// So the values of a sum are, bit for bit, those that whole matrices would have in these rows.
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/sum_tree.h"

namespace colla::collective {

// Ascending, each once, and their values one after another.
struct Rows {
  std::vector<std::int64_t> rows;
  std::vector<float> values;
};

// The same in somebody else's memory.
struct RowsView {
  RowsView() = default;
  RowsView(std::span<const std::int64_t> ascending, std::span<const float> theirValues)
      : rows(ascending), values(theirValues) {}
  explicit RowsView(const Rows& all) : rows(all.rows), values(all.values) {}
  // Those in [first, last).
  RowsView within(std::int64_t first, std::int64_t last, std::size_t width) const;

  std::span<const std::int64_t> rows;
  std::span<const float> values;
};

// Rows that come in any order and several times as each once, ascending; those of one row are added
// in the order in which they come.
Rows gatherRows(std::span<const std::int64_t> rows, std::span<const float> values,
                std::size_t width);

// One node of the tree: what both sides have. The root's sum is settled with finishRows().
Rows mergeRows(Rows left, Rows right, std::size_t width);
// No sum is -0.0.
void finishRows(Rows& rows);

// The sum of a subtree of a larger tree, by its nodes: a term of a sum that goes on elsewhere.
// leaves[i] is leaf i's of the larger tree.
Rows addRows(std::span<const SumTree::Node> subtree, std::span<const RowsView> leaves,
             std::size_t width);
// leaves[i] is leaf i's of `tree`; the root's sum, finished.
Rows foldRows(const SumTree& tree, std::span<const RowsView> leaves, std::size_t width);

}  // namespace colla::collective
