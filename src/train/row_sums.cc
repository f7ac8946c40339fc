#include "train/row_sums.h"

#include <algorithm>

#include "base/check.h"
#include "colla/collectives.h"

namespace colla::train {
RowSums::RowSums(SliceMap map, int rank, std::vector<std::size_t> widths)
    : map_(std::move(map)),
      tree_(collective::SumTree::of(map_)),
      rank_(rank),
      widths_(std::move(widths)),
      slices_(widths_.size()),
      sums_(widths_.size()) {
  for (int worker = 0; worker < map_.workers(); ++worker) {
    firstSubtree_.push_back(subtrees_.size());
    std::ranges::copy(map_.subtrees(worker), std::back_inserter(subtrees_));
  }
  firstSubtree_.push_back(subtrees_.size());
}

void RowSums::add(int matrix, int slice, std::span<const std::int64_t> rows,
                  std::span<const float> values) {
  const bool added =
      slices_[matrix].emplace(slice, collective::gatherRows(rows, values, widths_[matrix])).second;
  COLLA_CHECK(added);
}

// The worker's own slices, up to the root of one of its subtrees.
Rows RowSums::fold(std::map<int, Rows>& slices, SliceRange range, std::size_t width) const {
  if (range.size() == 1) {
    const auto found = slices.find(range.begin);
    return found == slices.end() ? Rows() : std::move(found->second);
  }
  const int split = splitPoint(range);
  return collective::mergeRows(fold(slices, {range.begin, split}, width),
                               fold(slices, {split, range.end}, width), width);
}

std::vector<Rows> RowSums::takePartials(int matrix) {
  std::vector<Rows> partials;
  for (std::size_t i = firstSubtree_[rank_]; i < firstSubtree_[rank_ + 1]; ++i) {
    partials.push_back(fold(slices_[matrix], subtrees_[i], widths_[matrix]));
  }
  slices_[matrix].clear();
  return partials;
}

Status RowSums::finish(Group& group) {
  // Of each matrix, by subtree; only this worker's have rows yet.
  std::vector<std::vector<Rows>> partials;
  for (int matrix = 0; matrix < static_cast<int>(widths_.size()); ++matrix) {
    auto& all = partials.emplace_back(takePartials(matrix));
    all.insert(all.begin(), firstSubtree_[rank_], Rows());
    all.resize(subtrees_.size());
  }
  if (group.size() > 1) COLLA_TRY(exchange(group, partials));
  for (std::size_t matrix = 0; matrix < widths_.size(); ++matrix) {
    sums_[matrix] = collective::foldRows(tree_, partials[matrix], widths_[matrix]);
  }
  return {};
}

// Three gathers for all matrices together: how many rows each subtree has, which ones, their
// values.
Status RowSums::exchange(Group& group, std::vector<std::vector<Rows>>& partials) const {
  const auto workers = static_cast<std::size_t>(map_.workers());
  std::vector<std::int64_t> mine;
  std::vector<std::int64_t> rows;
  std::vector<float> values;
  for (auto& matrix : partials) {
    for (std::size_t i = firstSubtree_[rank_]; i < firstSubtree_[rank_ + 1]; ++i) {
      mine.push_back(static_cast<std::int64_t>(matrix[i].rows.size()));
      rows.insert(rows.end(), matrix[i].rows.begin(), matrix[i].rows.end());
      values.insert(values.end(), matrix[i].values.begin(), matrix[i].values.end());
    }
  }
  std::vector<std::size_t> counts(workers);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    counts[worker] = widths_.size() * (firstSubtree_[worker + 1] - firstSubtree_[worker]);
  }
  std::vector<std::int64_t> lengths(widths_.size() * subtrees_.size());
  COLLA_TRY(allgatherv(group, mine, lengths, counts));

  std::vector<std::size_t> rowCounts(workers);
  std::vector<std::size_t> valueCounts(workers);
  std::size_t allRows = 0;
  std::size_t allValues = 0;
  for (std::size_t worker = 0, at = 0; worker < workers; ++worker) {
    for (const std::size_t width : widths_) {
      for (std::size_t i = firstSubtree_[worker]; i < firstSubtree_[worker + 1]; ++i, ++at) {
        rowCounts[worker] += static_cast<std::size_t>(lengths[at]);
        valueCounts[worker] += static_cast<std::size_t>(lengths[at]) * width;
      }
    }
    allRows += rowCounts[worker];
    allValues += valueCounts[worker];
  }
  std::vector<std::int64_t> everybodysRows(allRows);
  std::vector<float> everybodysValues(allValues);
  COLLA_TRY(allgatherv(group, rows, everybodysRows, rowCounts));
  COLLA_TRY(allgatherv(group, values, everybodysValues, valueCounts));

  const std::int64_t* row = everybodysRows.data();
  const float* value = everybodysValues.data();
  for (std::size_t worker = 0, at = 0; worker < workers; ++worker) {
    for (std::size_t matrix = 0; matrix < widths_.size(); ++matrix) {
      for (std::size_t i = firstSubtree_[worker]; i < firstSubtree_[worker + 1]; ++i, ++at) {
        const std::int64_t length = lengths[at];
        Rows& partial = partials[matrix][i];
        partial.rows.assign(row, row + length);
        row += length;
        const float* const end = value + static_cast<std::size_t>(length) * widths_[matrix];
        partial.values.assign(value, end);
        value = end;
      }
    }
  }
  return {};
}

}  // namespace colla::train
