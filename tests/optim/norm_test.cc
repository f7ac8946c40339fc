#include "optim/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "optim/cases.h"

namespace colla::optim {
namespace {

template <typename T>
class NormTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(NormTest, Types);

// The order of the additions, spelled out: part of what checkpoints' bits rest on.
template <typename T>
double spelledOut(const std::vector<T>& values) {
  double total = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += 4096) {
    double lanes[8] = {};
    for (std::size_t i = begin; i < std::min(begin + 4096, values.size()); ++i) {
      const double value = values[i];
      lanes[i % 8] += value * value;
    }
    total += ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
             ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
  return total;
}

TYPED_TEST(NormTest, AddsInTheFixedOrder) {
  std::mt19937 random(3);
  for (const std::size_t count : {0, 1, 2, 7, 8, 9, 31, 4095, 4096, 4097, 8191, 20011}) {
    const auto values = randomValues<TypeParam>(random, count);
    EXPECT_EQ(sumOfSquares<TypeParam>(values), spelledOut(values)) << count;
  }
}

TYPED_TEST(NormTest, DoesNotDependOnWhereTheValuesLie) {
  std::mt19937 random(4);
  const auto values = randomValues<TypeParam>(random, 5003);
  const double expected = sumOfSquares<TypeParam>(values);
  std::vector<TypeParam> buffer(values.size() + 18);
  for (std::size_t offset = 0; offset <= 17; ++offset) {
    std::copy(values.begin(), values.end(), buffer.begin() + offset);
    EXPECT_EQ(sumOfSquares(std::span<const TypeParam>(buffer).subspan(offset, values.size())),
              expected);
  }
}

TYPED_TEST(NormTest, HoldersOfPartsGetTheSumOfTheWhole) {
  std::mt19937 random(5);
  const auto values = randomValues<TypeParam>(random, 5 * kNormBlock + 17);
  const std::span<const TypeParam> all(values);
  double sum = 0;
  for (std::size_t at = 0; at < all.size(); at += kNormBlock) {
    sum += sumOfSquares(all.subspan(at, std::min(kNormBlock, all.size() - at)));
  }
  EXPECT_EQ(sum, sumOfSquares(all));
}

TEST(ClipTest, SquaresOfFloatsNeitherOverflowNorVanish) {
  const float large[] = {3e38f, 2e38f};
  EXPECT_NEAR(std::sqrt(sumOfSquares<float>(large)) / std::hypot(3e38, 2e38), 1, 1e-7);
  const float small[] = {3e-38f, 4e-38f};
  EXPECT_NEAR(std::sqrt(sumOfSquares<float>(small)) / 5e-38, 1, 1e-7);
}

TEST(ClipTest, ClipsOnlyWhatIsTooLong) {
  EXPECT_EQ(clipFactor(0, 1), 1);
  EXPECT_EQ(clipFactor(0.5, 1), 1);
  EXPECT_NEAR(clipFactor(4, 1), 0.25, 1e-6);
  EXPECT_EQ(clipFactor(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_TRUE(std::isnan(clipFactor(std::numeric_limits<double>::quiet_NaN(), 1)));
}

}  // namespace
}  // namespace colla::optim
