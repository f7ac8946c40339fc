#include <fmt/format.h>

#include <algorithm>

#include "colla/error.h"
#include "colla/model.h"

namespace colla {

void checkInputAndTarget(const std::vector<torch::Tensor>& batch) {
  if (batch.size() >= 2) return;
  throw Error(
      StatusCode::kInvalidArgument,
      fmt::format("it takes an input and a target, but the data set has {} field{}: give it "
                  "two, or derive from colla::Model",
                  batch.size(), batch.size() == 1 ? "" : "s"));
}

// By hand, because it runs in every step: the operators would cost more than the comparison.
double accuracyOf(const torch::Tensor& logits, const torch::Tensor& target) {
  if (logits.dim() != 2 || target.dim() != 1 || logits.size(0) != target.size(0) ||
      target.scalar_type() != torch::kInt64) {
    throw Error(StatusCode::kInvalidArgument,
                "accuracy takes logits of shape [samples, classes] and int64 classes [samples]");
  }
  const torch::Tensor values = logits.detach().to(torch::kFloat32).contiguous();
  const torch::Tensor classes = target.contiguous();
  const auto* row = values.const_data_ptr<float>();
  const auto* wanted = classes.const_data_ptr<std::int64_t>();
  const std::int64_t samples = values.size(0);
  const std::int64_t width = values.size(1);
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < samples; ++i, row += width) {
    right += std::max_element(row, row + width) - row == wanted[i] ? 1 : 0;
  }
  return samples == 0 ? 0 : static_cast<double>(right) / static_cast<double>(samples);
}

}  // namespace colla
