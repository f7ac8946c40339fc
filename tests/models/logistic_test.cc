#include <gtest/gtest.h>

#include "models/logistic_loss.h"

namespace colla::models {
namespace {

torch::Tensor asLeaf(const torch::Tensor& tensor) {
  return tensor.detach().clone().set_requires_grad(true);
}

// With one thread and with several, for rows that are few and many.
TEST(LogisticLossTest, IsAutogradsInDouble) {
  const int before = torch::get_num_threads();
  for (const int threads : {1, 2}) {
    torch::set_num_threads(threads);
    for (const std::int64_t samples : {1, 7, 300}) {
      torch::manual_seed(static_cast<std::uint64_t>(samples));
      const torch::Tensor rows = torch::randn({samples, 1001});
      const torch::Tensor target = torch::randint(0, 2, {samples}, torch::kInt64);
      const torch::Tensor weight = asLeaf(torch::randn({1, 1001}) / 30);
      const torch::Tensor bias = asLeaf(torch::full({1}, 0.3));
      const LogisticLoss found = logisticLoss(rows, weight, bias, target);
      (found.loss * 3).backward();

      const torch::Tensor exactWeight = asLeaf(weight.to(torch::kFloat64));
      const torch::Tensor exactBias = asLeaf(bias.to(torch::kFloat64));
      const torch::Tensor logits =
          torch::linear(rows.to(torch::kFloat64), exactWeight, exactBias).squeeze(1);
      const torch::Tensor loss =
          torch::binary_cross_entropy_with_logits(logits, target.to(torch::kFloat64));
      (loss * 3).backward();

      const auto near = [](const torch::Tensor& a, const torch::Tensor& b) {
        return torch::allclose(a.to(torch::kFloat64), b, 1e-4, 1e-6);
      };
      EXPECT_TRUE(near(found.loss, loss)) << samples;
      EXPECT_TRUE(near(found.logits, logits)) << samples;
      EXPECT_TRUE(near(weight.grad(), exactWeight.grad())) << samples;
      EXPECT_TRUE(near(bias.grad(), exactBias.grad())) << samples;
      EXPECT_FALSE(found.logits.requires_grad());
    }
  }
  torch::set_num_threads(before);
}

}  // namespace
}  // namespace colla::models
