#include "train/touched_rows.h"

#include <algorithm>

namespace colla::train {

TouchedRows::TouchedRows(std::span<const Parameter> tables) : rows_(tables.size()) {
  for (const Parameter& table : tables) tables_.push_back(table.tensor);
}

void TouchedRows::refresh(const torch::Tensor& table, const torch::Tensor& rows) {
  const auto found = std::ranges::find_if(tables_, [&](const torch::Tensor& known) {
    return known.const_data_ptr() == table.const_data_ptr();
  });
  if (found == tables_.end()) return;
  const torch::Tensor wanted = rows.to(torch::kInt64).contiguous();
  const std::int64_t* const first = wanted.const_data_ptr<std::int64_t>();
  auto& seen = rows_[static_cast<std::size_t>(found - tables_.begin())];
  for (const std::int64_t row : std::span(first, static_cast<std::size_t>(wanted.numel()))) {
    if (row >= 0 && row < found->size(0)) seen.insert(row);
  }
}

std::vector<std::int64_t> TouchedRows::rows(std::size_t table) const {
  return {rows_[table].begin(), rows_[table].end()};
}

}  // namespace colla::train
