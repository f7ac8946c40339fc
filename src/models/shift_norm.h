// Batch normalisation that learns a shift and no scale, as tf.contrib.layers.batch_norm does unless
// it is told otherwise (center=True, scale=False, epsilon 0.001), with a decay of 0.9.
//
// Named as PyTorch's BatchNorm: bias, running_mean, running_var.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace colla::models {

struct ShiftNormImpl : torch::nn::Module {
  static constexpr double kEpsilon = 1e-3;

  explicit ShiftNormImpl(std::int64_t features);

  // Samples x features.
  torch::Tensor forward(const torch::Tensor& input);

  // For those who normalise themselves: what a batch of `count` values per feature had. The
  // variance is over `count`; as in PyTorch, what is kept is over one less.
  void update(const torch::Tensor& mean, const torch::Tensor& variance, std::int64_t count);
  // With the kept statistics.
  torch::Tensor withKept(const torch::Tensor& input) const;

  torch::Tensor bias;
  torch::Tensor runningMean;
  torch::Tensor runningVar;
};
TORCH_MODULE(ShiftNorm);

}  // namespace colla::models
