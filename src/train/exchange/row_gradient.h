// A gradient of a few rows, as it lies in memory: their numbers, which may repeat, and one row of
// values for each.
//
// Keeps that memory. Not thread safe.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <span>
#include <string>

namespace colla::train {

class RowGradient {
 public:
  // Throws colla::Error, with the parameter's name, for a gradient that is not a sparse one of rows
  // of `parameter`.
  RowGradient(const std::string& name, const torch::Tensor& parameter,
              const torch::Tensor& gradient);

  std::span<const std::int64_t> rows() const;
  std::span<const float> values() const;

 private:
  torch::Tensor rows_;
  torch::Tensor values_;
};

}  // namespace colla::train
