// Logistic regression on rows that lie in memory: loss and gradient in one pass.
//
// A step is bound by reading the rows. Forward and backward as two products of a matrix and a
// vector read them twice; here a few rows at a time are multiplied by the weights, and added to the
// gradient while they are still in the cache.
//
// A row's logit depends on the row and the weights alone, and the gradient is summed from the first
// row to the last: the same bits for every build of the kernels. Thread safe.
#pragma once

#include <cstdint>
#include <span>

namespace colla::models::kernels {

struct LogisticBatch {
  const float* rows = nullptr;  // [samples][features]
  std::int64_t features = 0;
  std::span<const std::int64_t> target;  // One for each row: 1, or 0 for the other class.
};

struct LogisticGradient {
  std::span<float> weight;  // Overwritten.
  float bias = 0;
};

// The sum of the samples' binary cross entropies. `logits` become rows times weight, plus bias;
// `gradient` becomes that of the sum times `scale`.
double logisticLoss(const LogisticBatch& batch, const float* weight, float bias, float scale,
                    std::span<float> logits, LogisticGradient& gradient);

}  // namespace colla::models::kernels
