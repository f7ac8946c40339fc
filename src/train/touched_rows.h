// Which rows of some tables a model's lookups read.
//
// Not thread safe.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "train/exchange/parameter.h"
#include "train/row_lookup.h"

namespace colla::train {

class TouchedRows final : public RowSource {
 public:
  explicit TouchedRows(std::span<const Parameter> tables);

  void refresh(const torch::Tensor& table, const torch::Tensor& rows) override;

  // Of a table: ascending, each once.
  std::vector<std::int64_t> rows(std::size_t table) const;

 private:
  std::vector<torch::Tensor> tables_;
  std::vector<std::set<std::int64_t>> rows_;
};

}  // namespace colla::train
