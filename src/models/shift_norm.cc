#include "models/shift_norm.h"

#include <algorithm>

namespace colla::models {
namespace {

constexpr double kDecay = 0.9;

}  // namespace

ShiftNormImpl::ShiftNormImpl(std::int64_t features)
    : bias(register_parameter("bias", torch::zeros({features}))),
      runningMean(register_buffer("running_mean", torch::zeros({features}))),
      runningVar(register_buffer("running_var", torch::ones({features}))) {}

torch::Tensor ShiftNormImpl::forward(const torch::Tensor& input) {
  if (!is_training()) return withKept(input);
  {
    const torch::NoGradGuard noGrad;
    const auto [variance, mean] = torch::var_mean(input, {0}, /*unbiased=*/false);
    update(mean, variance, input.size(0));
  }
  // Its own way to keep statistics divides by zero for a batch of one.
  return torch::batch_norm(input, /*weight=*/{}, bias, {}, {}, /*training=*/true, /*momentum=*/0,
                           kEpsilon, /*cudnn_enabled=*/false);
}

void ShiftNormImpl::update(const torch::Tensor& mean, const torch::Tensor& variance,
                           std::int64_t count) {
  const torch::NoGradGuard noGrad;
  const double unbiased =
      static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(count - 1, 1));
  runningMean.mul_(kDecay).add_(mean, 1 - kDecay);
  runningVar.mul_(kDecay).add_(variance, (1 - kDecay) * unbiased);
}

torch::Tensor ShiftNormImpl::withKept(const torch::Tensor& input) const {
  return (input - runningMean) * (runningVar + kEpsilon).rsqrt() + bias;
}

}  // namespace colla::models
