#include "models/kernels/logistic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "base/instruction_set.h"
#include "models/kernels/logistic_kernel.h"

namespace colla::models::kernels {
namespace {

struct Problem {
  Problem(std::int64_t rowCount, std::int64_t featureCount)
      : features(featureCount),
        rows(rowCount * featureCount),
        weight(featureCount),
        target(rowCount) {
    std::mt19937 random(static_cast<unsigned>(rowCount * 1000 + featureCount));
    std::normal_distribution<float> normal;
    for (float& value : rows) value = normal(random);
    for (float& value : weight) value = normal(random) / 8;
    for (std::int64_t& value : target) value = static_cast<std::int64_t>(random() % 2);
  }
  LogisticBatch batch() const { return {rows.data(), features, target}; }

  std::int64_t features;
  std::vector<float> rows, weight;
  std::vector<std::int64_t> target;
  float bias = 0.25f;
};

struct Outcome {
  explicit Outcome(const Problem& problem, float scale = 1)
      : logits(problem.target.size()), weight(problem.weight.size(), 7.0f) {
    LogisticGradient gradient{weight};
    loss =
        logisticLoss(problem.batch(), problem.weight.data(), problem.bias, scale, logits, gradient);
    bias = gradient.bias;
  }
  double loss = 0;
  std::vector<float> logits, weight;
  float bias = 0;
};

// Rows that fill no block, features that fill no vector.
TEST(LogisticTest, IsThePlainFormula) {
  for (const std::int64_t samples : {0, 1, 3, 4, 5, 11}) {
    for (const std::int64_t features : {1, 7, 8, 31, 32, 33, 100}) {
      const Problem problem(samples, features);
      const float scale = 0.5f;
      const Outcome found(problem, scale);
      double loss = 0;
      double bias = 0;
      std::vector<double> weight(features, 0.0);
      for (std::int64_t i = 0; i < samples; ++i) {
        double logit = problem.bias;
        for (std::int64_t j = 0; j < features; ++j) {
          logit += double{problem.rows[i * features + j]} * problem.weight[j];
        }
        const auto target = static_cast<double>(problem.target[i]);
        loss += std::log1p(std::exp(logit)) - target * logit;
        const double slope = 1 / (1 + std::exp(-logit)) - target;
        bias += slope * scale;
        for (std::int64_t j = 0; j < features; ++j) {
          weight[j] += slope * scale * problem.rows[i * features + j];
        }
        EXPECT_NEAR(found.logits[i], logit, 1e-5);
      }
      EXPECT_NEAR(found.loss, loss, 1e-5);
      EXPECT_NEAR(found.bias, bias, 1e-5);
      for (std::int64_t j = 0; j < features; ++j) EXPECT_NEAR(found.weight[j], weight[j], 1e-5);
    }
  }
}

TEST(LogisticTest, ALogitDependsOnItsRowAlone) {
  const Problem problem(11, 77);
  const Outcome all(problem);
  for (std::int64_t i = 0; i < 11; ++i) {
    Problem alone(1, 77);
    alone.rows.assign(problem.rows.begin() + i * 77, problem.rows.begin() + (i + 1) * 77);
    alone.weight = problem.weight;
    EXPECT_EQ(Outcome(alone).logits[0], all.logits[i]) << i;
  }
}

// Far out, where exp() would overflow, loss and gradient are still right.
TEST(LogisticTest, LargeLogitsStayFinite) {
  for (const float sign : {-1.0f, 1.0f}) {
    for (const std::int64_t target : {0, 1}) {
      Problem problem(1, 1);
      problem.rows = {sign};
      problem.weight = {5000};
      problem.bias = 0;
      problem.target = {target};
      const Outcome found(problem);
      const bool right = (sign > 0) == (target == 1);
      EXPECT_EQ(found.loss, right ? 0 : 5000);
      EXPECT_EQ(found.bias, right ? 0 : sign);
      EXPECT_EQ(found.weight[0], right ? 0 : 1);
    }
  }
}

TEST(LogisticTest, BuildsGiveTheSameBits) {
  if (!hasAvx2()) GTEST_SKIP() << "this CPU runs the baseline alone";
  for (const int count : {1, 3, 4}) {
    const Problem problem(count, 203);
    std::vector<float> factors = {0.1f, -0.7f, 3.0f, 0.9f};
    std::vector<std::vector<float>> products;
    std::vector<std::vector<float>> sums;
    for (const auto& kernel : {baselineLogisticKernels(), avx2LogisticKernels()}) {
      auto& product = products.emplace_back(count);
      kernel.products(problem.rows.data(), 203, count, problem.weight.data(), product.data());
      auto& sum = sums.emplace_back(problem.weight);
      kernel.accumulate(problem.rows.data(), 203, count, factors.data(), sum.data());
    }
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(products[0])),
                                   std::as_bytes(std::span(products[1]))));
    EXPECT_TRUE(
        std::ranges::equal(std::as_bytes(std::span(sums[0])), std::as_bytes(std::span(sums[1]))));
  }
}

}  // namespace
}  // namespace colla::models::kernels
