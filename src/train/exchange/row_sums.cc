#include "train/exchange/row_sums.h"

#include <algorithm>
#include <numeric>

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
  std::vector<std::vector<Rows>> mine;
  for (int matrix = 0; matrix < static_cast<int>(widths_.size()); ++matrix) {
    mine.push_back(takePartials(matrix));
  }
  Partials all(widths_.size(), std::vector<RowsView>(subtrees_.size()));
  if (group.size() > 1) {
    COLLA_TRY(exchange(group, mine, all));
  } else {
    for (std::size_t matrix = 0; matrix < widths_.size(); ++matrix) {
      std::ranges::transform(mine[matrix], all[matrix].begin(),
                             [](const Rows& rows) { return RowsView(rows); });
    }
  }
  for (std::size_t matrix = 0; matrix < widths_.size(); ++matrix) {
    sums_[matrix] = collective::foldRows(tree_, all[matrix], widths_[matrix]);
  }
  return {};
}

// Three gathers for all matrices together: how many rows each subtree has, which ones, their
// values.
Status RowSums::exchange(Group& group, const std::vector<std::vector<Rows>>& mine, Partials& all) {
  const auto workers = static_cast<std::size_t>(map_.workers());
  std::vector<std::int64_t> myLengths;
  myRows_.clear();
  myValues_.clear();
  for (const auto& matrix : mine) {
    for (const Rows& partial : matrix) {
      myLengths.push_back(static_cast<std::int64_t>(partial.rows.size()));
      myRows_.insert(myRows_.end(), partial.rows.begin(), partial.rows.end());
      myValues_.insert(myValues_.end(), partial.values.begin(), partial.values.end());
    }
  }
  std::vector<std::size_t> counts(workers);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    counts[worker] = widths_.size() * (firstSubtree_[worker + 1] - firstSubtree_[worker]);
  }
  std::vector<std::int64_t> lengths(widths_.size() * subtrees_.size());
  COLLA_TRY(allgatherv(group, myLengths, lengths, counts));

  std::vector<std::size_t> rowCounts(workers);
  std::vector<std::size_t> valueCounts(workers);
  for (std::size_t worker = 0, at = 0; worker < workers; ++worker) {
    for (const std::size_t width : widths_) {
      for (std::size_t i = firstSubtree_[worker]; i < firstSubtree_[worker + 1]; ++i, ++at) {
        rowCounts[worker] += static_cast<std::size_t>(lengths[at]);
        valueCounts[worker] += static_cast<std::size_t>(lengths[at]) * width;
      }
    }
  }
  rows_.resize(std::reduce(rowCounts.begin(), rowCounts.end()));
  values_.resize(std::reduce(valueCounts.begin(), valueCounts.end()));
  COLLA_TRY(allgatherv(group, myRows_, rows_, rowCounts));
  COLLA_TRY(allgatherv(group, myValues_, values_, valueCounts));

  std::span<const std::int64_t> rows(rows_);
  std::span<const float> values(values_);
  for (std::size_t worker = 0, at = 0; worker < workers; ++worker) {
    for (std::size_t matrix = 0; matrix < widths_.size(); ++matrix) {
      for (std::size_t i = firstSubtree_[worker]; i < firstSubtree_[worker + 1]; ++i, ++at) {
        const auto count = static_cast<std::size_t>(lengths[at]);
        all[matrix][i] = {rows.first(count), values.first(count * widths_[matrix])};
        rows = rows.subspan(count);
        values = values.subspan(count * widths_[matrix]);
      }
    }
  }
  return {};
}

}  // namespace colla::train
