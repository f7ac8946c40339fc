#include "collective/rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace colla::collective {
namespace {

void addTo(float* sum, const float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
}

// A row that only one side has is that side's: adding +0.0 changes nothing but the sign of a zero,
// which the root sets.
Rows merge(const RowsView& left, const RowsView& right, std::size_t width) {
  Rows sum;
  sum.rows.reserve(left.rows.size() + right.rows.size());
  sum.values.reserve(left.values.size() + right.values.size());
  const auto take = [&](const RowsView& from, std::size_t i) {
    sum.rows.push_back(from.rows[i]);
    const float* const values = from.values.data() + i * width;
    sum.values.insert(sum.values.end(), values, values + width);
  };
  std::size_t l = 0;
  std::size_t r = 0;
  while (l < left.rows.size() || r < right.rows.size()) {
    const bool hasLeft = l < left.rows.size();
    const bool hasRight = r < right.rows.size();
    if (!hasRight || (hasLeft && left.rows[l] < right.rows[r])) {
      take(left, l++);
    } else if (!hasLeft || right.rows[r] < left.rows[l]) {
      take(right, r++);
    } else {
      take(left, l++);
      addTo(sum.values.data() + sum.values.size() - width, right.values.data() + r++ * width,
            width);
    }
  }
  return sum;
}

}  // namespace

RowsView RowsView::within(std::int64_t first, std::int64_t last, std::size_t width) const {
  const auto begin = static_cast<std::size_t>(std::ranges::lower_bound(rows, first) - rows.begin());
  const auto end = static_cast<std::size_t>(std::ranges::lower_bound(rows, last) - rows.begin());
  return {rows.subspan(begin, end - begin), values.subspan(begin * width, (end - begin) * width)};
}

Rows gatherRows(std::span<const std::int64_t> rows, std::span<const float> values,
                std::size_t width) {
  COLLA_CHECK(values.size() == rows.size() * width);
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  order.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) order.emplace_back(rows[i], i);
  std::ranges::sort(order);  // Rows that are equal stay in their order.
  Rows gathered;
  gathered.rows.reserve(rows.size());
  gathered.values.reserve(values.size());
  for (const auto& [row, place] : order) {
    const float* const from = values.data() + place * width;
    if (!gathered.rows.empty() && gathered.rows.back() == row) {
      addTo(gathered.values.data() + gathered.values.size() - width, from, width);
    } else {
      gathered.rows.push_back(row);
      gathered.values.insert(gathered.values.end(), from, from + width);
    }
  }
  return gathered;
}

Rows mergeRows(Rows left, Rows right, std::size_t width) {
  if (left.rows.empty()) return right;
  if (right.rows.empty()) return left;
  return merge(RowsView(left), RowsView(right), width);
}

void finishRows(Rows& rows) {
  for (float& value : rows.values) value += 0.0f;
}

Rows addRows(std::span<const SumTree::Node> subtree, std::span<const RowsView> leaves,
             std::size_t width) {
  // A leaf where it lies, or a sum, which `view` is of: it stays in place when the sum is moved.
  struct Value {
    RowsView view;
    Rows sum = {};
  };
  // Children come before their parents, so a stack evaluates the tree.
  std::vector<Value> stack;
  for (const SumTree::Node& node : subtree) {
    if (node.leaf >= 0) {
      stack.push_back({leaves[static_cast<std::size_t>(node.leaf)]});
      continue;
    }
    Value right = std::move(stack.back());
    stack.pop_back();
    Value& left = stack.back();
    if (left.view.rows.empty()) {
      left = std::move(right);
    } else if (!right.view.rows.empty()) {
      Rows sum = merge(left.view, right.view, width);
      const RowsView view(sum);
      left = {view, std::move(sum)};
    }
  }
  auto& [view, sum] = stack.front();
  if (sum.rows.empty()) {
    sum = {{view.rows.begin(), view.rows.end()}, {view.values.begin(), view.values.end()}};
  }
  return std::move(sum);
}

Rows foldRows(const SumTree& tree, std::span<const RowsView> leaves, std::size_t width) {
  COLLA_CHECK(static_cast<int>(leaves.size()) == tree.leaves());
  Rows sum = addRows(tree.nodes(), leaves, width);
  finishRows(sum);
  return sum;
}

}  // namespace colla::collective
