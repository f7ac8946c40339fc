#include "models/kernels/letter_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/instruction_set.h"
#include "models/kernels/letter_convolution_kernel.h"
#include "models/kernels/samples.h"

namespace colla::models::kernels {
namespace {

template <typename T>
auto bitsOf(T value) {
  return std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(value);
}

template <typename T>
class LetterConvolutionTest : public ::testing::Test {
 protected:
  struct Found {
    std::vector<T> value;
    std::vector<std::int32_t> position;
  };
  static Found forward(const Samples& samples, const std::vector<T>& weight, std::int64_t filters,
                       std::int64_t window) {
    Found found{std::vector<T>(samples.samples * filters),
                std::vector<std::int32_t>(samples.samples * filters)};
    maxConvolution(*samples.made(), weight.data(), filters, window, {0, filters},
                   found.value.data(), found.position.data());
    return found;
  }
  // Multiples of 1/4 that are small enough for every sum to be exact.
  std::vector<T> exactWeights(std::int64_t count) {
    std::vector<T> weights(count);
    for (T& weight : weights) weight = T(int(random_() % 41) - 20) / 4;
    return weights;
  }
  std::vector<T> weights(std::int64_t count) {
    std::normal_distribution<double> normal;
    std::vector<T> values(count);
    for (T& value : values) value = static_cast<T>(normal(random_));
    return values;
  }

  std::mt19937 random_{3};
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LetterConvolutionTest, Types);

// Windows below, at and above the kernel's tile, sequences of a few tiles and of less than one,
// filters that fill no vector; coarse weights, so that many positions are equally good.
TYPED_TEST(LetterConvolutionTest, FindsTheFirstOfTheLargest) {
  for (const std::int64_t window : {1, 3, 7, 8, 9, 15, 16, 17, 36}) {
    for (const std::int64_t length : {window, window + 1, window + 7, window + 8, window + 61}) {
      for (const std::int64_t filters : {1, 8, 13}) {
        const Samples samples = randomSamples(this->random_, 4, length);
        const auto weight = this->exactWeights(filters * kClasses * window);
        const auto found = this->forward(samples, weight, filters, window);
        for (std::int64_t i = 0; i < samples.samples; ++i) {
          for (std::int64_t f = 0; f < filters; ++f) {
            const auto values = convolution(samples, i, &weight[f * kClasses * window], window);
            const auto best = std::ranges::max_element(values);
            ASSERT_EQ(found.value[i * filters + f], *best) << window << " of " << length;
            ASSERT_EQ(found.position[i * filters + f], best - values.begin())
                << window << " of " << length << ", sample " << i << ", filter " << f;
          }
        }
      }
    }
  }
}

TYPED_TEST(LetterConvolutionTest, ResultsDependOnFilterAndSampleAlone) {
  using T = TypeParam;
  constexpr std::int64_t kWindow = 12, kLength = 101, kFilters = 21, kSamples = 5;
  const Samples samples = randomSamples(this->random_, kSamples, kLength);
  const auto weight = this->weights(kFilters * kClasses * kWindow);
  const auto whole = this->forward(samples, weight, kFilters, kWindow);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const auto begin = samples.letters.begin() + i * kLength;
    const auto alone = Samples{1, kLength, {begin, begin + kLength}}.made();
    for (std::int64_t f = 0; f < kFilters; ++f) {
      std::vector<T> value(kFilters, -1);
      std::vector<std::int32_t> position(kFilters, -1);
      maxConvolution(*alone, weight.data(), kFilters, kWindow, {f, f + 1}, value.data(),
                     position.data());
      EXPECT_EQ(bitsOf(value[f]), bitsOf(whole.value[i * kFilters + f]));
      EXPECT_EQ(position[f], whole.position[i * kFilters + f]);
      // And no other filter is touched.
      EXPECT_EQ(std::ranges::count(position, -1), kFilters - 1);
    }
  }
}

TYPED_TEST(LetterConvolutionTest, BothBuildsGiveTheSameBits) {
  using T = TypeParam;
  if (!hasAvx2()) GTEST_SKIP() << "this CPU has no AVX2";
  constexpr int kWindow = 20;
  struct alignas(kRowBytes) Row {
    T lane[kLanes<T>];
  };
  std::vector<Row> table(kWindow * kLetters);
  const auto numbers = this->weights(table.size() * kLanes<T>);
  std::memcpy(table.data(), numbers.data(), numbers.size() * sizeof(T));
  const Samples samples = randomSamples(this->random_, 1, 200);
  const auto made = samples.made();
  T values[2][kLanes<T>];
  std::int32_t positions[2][kLanes<T>];
  baselineMaxKernel<T>()(table.front().lane, kWindow, made->sample(0), 181, values[0],
                         positions[0]);
  avx2MaxKernel<T>()(table.front().lane, kWindow, made->sample(0), 181, values[1], positions[1]);
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    EXPECT_EQ(bitsOf(values[0][lane]), bitsOf(values[1][lane]));
    EXPECT_EQ(positions[0][lane], positions[1][lane]);
  }
}

TYPED_TEST(LetterConvolutionTest, BrokenWeightIsSeen) {
  using T = TypeParam;
  const Samples samples = randomSamples(this->random_, 3, 40);
  auto weight = this->weights(3 * kClasses * 8);
  weight[kClasses * 8 + 5] = std::numeric_limits<T>::quiet_NaN();
  const auto found = this->forward(samples, weight, 3, 8);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(std::isnan(found.value[i]), i % 3 == 1);
    EXPECT_TRUE(found.position[i] >= 0 && found.position[i] <= 32);
  }
}

TYPED_TEST(LetterConvolutionTest, BackwardTouchesTheWinners) {
  using T = TypeParam;
  constexpr std::int64_t kWindow = 9, kLength = 50, kFilters = 11, kSamples = 6;
  const Samples samples = randomSamples(this->random_, kSamples, kLength);
  std::vector<T> gradient = this->exactWeights(kSamples * kFilters);
  std::vector<std::int32_t> position(gradient.size());
  for (auto& place : position) place = this->random_() % (kLength - kWindow + 1);
  std::vector<double> right(kFilters * kClasses * kWindow);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    for (std::int64_t f = 0; f < kFilters; ++f) {
      for (std::int64_t k = 0; k < kWindow; ++k) {
        const auto vector = classVector(samples.at(i, position[i * kFilters + f] + k));
        for (int c = 0; c < kClasses; ++c) {
          right[(f * kClasses + c) * kWindow + k] += vector[c] * gradient[i * kFilters + f];
        }
      }
    }
  }
  // In two pieces, over what was there before.
  std::vector<T> found(right.size(), 99);
  const auto letters = samples.made();
  for (const FilterRange range : {FilterRange{0, 4}, FilterRange{4, kFilters}}) {
    maxConvolutionBackward(*letters, gradient.data(), position.data(), kFilters, kWindow, range,
                           found.data());
  }
  for (std::size_t i = 0; i < right.size(); ++i) ASSERT_EQ(found[i], right[i]) << i;
}

}  // namespace
}  // namespace colla::models::kernels
