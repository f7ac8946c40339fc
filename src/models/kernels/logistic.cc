#include "models/kernels/logistic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/instruction_set.h"
#include "models/kernels/logistic_kernel.h"

namespace colla::models::kernels {
namespace {

struct Sample {
  double loss;
  float slope;  // Of the loss over the logit.
};

Sample at(float logit, bool target) {
  const double away = std::exp(-std::abs(static_cast<double>(logit)));  // At most 1.
  const double chance = (logit < 0 ? away : 1) / (1 + away);
  const double wrong = target ? -logit : logit;
  return {std::max(wrong, 0.0) + std::log1p(away),
          static_cast<float>(chance - (target ? 1.0 : 0.0))};
}

}  // namespace

double logisticLoss(const LogisticBatch& batch, const float* weight, float bias, float scale,
                    std::span<float> logits, LogisticGradient& gradient) {
  const LogisticKernels kernel = hasAvx2() ? avx2LogisticKernels() : baselineLogisticKernels();
  const auto samples = static_cast<std::int64_t>(batch.target.size());
  std::ranges::fill(gradient.weight, 0.0f);
  gradient.bias = 0;
  double loss = 0;
  for (std::int64_t first = 0; first < samples; first += kLogisticRows) {
    const int count = static_cast<int>(std::min<std::int64_t>(kLogisticRows, samples - first));
    const float* const rows = batch.rows + first * batch.features;
    kernel.products(rows, batch.features, count, weight, logits.data() + first);
    std::array<float, kLogisticRows> factors{};
    for (int i = 0; i < count; ++i) {
      float& logit = logits[first + i];
      logit += bias;
      const Sample sample = at(logit, batch.target[first + i] == 1);
      loss += sample.loss;
      factors[i] = sample.slope * scale;
      gradient.bias += factors[i];
    }
    kernel.accumulate(rows, batch.features, count, factors.data(), gradient.weight.data());
  }
  return loss;
}

}  // namespace colla::models::kernels
