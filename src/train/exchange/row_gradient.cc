#include "train/exchange/row_gradient.h"

#include <fmt/format.h>

#include "colla/error.h"

namespace colla::train {

RowGradient::RowGradient(const std::string& name, const torch::Tensor& parameter,
                         const torch::Tensor& gradient) {
  if (!gradient.is_sparse() || gradient.sparse_dim() != 1 ||
      gradient.scalar_type() != torch::kFloat32 || gradient.sizes() != parameter.sizes()) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("parameter \"{}\" was said to get sparse gradients of rows, but got "
                            "another one",
                            name));
  }
  rows_ = gradient._indices().contiguous();
  values_ = gradient._values().contiguous();
}

std::span<const std::int64_t> RowGradient::rows() const {
  return {rows_.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(rows_.numel())};
}

std::span<const float> RowGradient::values() const {
  return {values_.const_data_ptr<float>(), static_cast<std::size_t>(values_.numel())};
}

}  // namespace colla::train
