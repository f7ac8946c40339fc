// The loss of logistic regression as one operation: models/kernels/logistic.h for autograd.
#pragma once

#include <torch/torch.h>

namespace colla::models {

struct LogisticLoss {
  torch::Tensor loss;    // Mean over the samples.
  torch::Tensor logits;  // One for each; not to be differentiated.
};

// `rows` [samples, features] and `weight` [1, features] are float32, `bias` [1], `target` int64 0
// or
// 1. Bits depend on the number of libtorch's threads.
LogisticLoss logisticLoss(const torch::Tensor& rows, const torch::Tensor& weight,
                          const torch::Tensor& bias, const torch::Tensor& target);

}  // namespace colla::models
