#include "data/image/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "colla/random.h"

namespace colla::data {
namespace {

using ::testing::Each;
using ::testing::FloatNear;
using ::testing::Pointwise;

std::vector<float> resized(const std::vector<std::uint8_t>& planes, ImageSize from, ImageSize to,
                           int channels = 1) {
  std::vector<float> result(channels * to.pixels());
  std::vector<float> scratch;
  Resizer(from, to).resize({planes.data(), channels, from}, result.data(), scratch);
  for (float& value : result) value *= 255;
  return result;
}

auto near(const std::vector<double>& values) {
  return Pointwise(::testing::FloatNear(1e-4), values);
}

TEST(ResizeTest, EnlargesBilinearly) {
  // Centres at -0.25, 0.25, 0.75, 1.25 pixels of the original; the ends are repeated.
  EXPECT_THAT(resized({0, 100}, {1, 2}, {1, 4}), near({0, 25, 75, 100}));
  EXPECT_THAT(resized({0, 100}, {2, 1}, {4, 1}), near({0, 25, 75, 100}));
  EXPECT_THAT(resized({0, 40, 80, 120}, {2, 2}, {4, 4}),
              near({0, 10, 30, 40, 20, 30, 50, 60, 60, 70, 90, 100, 80, 90, 110, 120}));
}

TEST(ResizeTest, ShrinksUnderAWiderTriangle) {
  // Half the size: triangle weights 1, 3, 3, 1 of 8; at the edges 3, 3, 1 of 7.
  EXPECT_THAT(resized({70, 0, 0, 0, 0, 0}, {1, 6}, {1, 3}), near({30, 0, 0}));
  EXPECT_THAT(resized({0, 0, 0, 80, 0, 0}, {1, 6}, {1, 3}), near({0, 30, 80 / 7.0}));
  // Every pixel of the original counts: fine stripes become grey, not black or white.
  std::vector<std::uint8_t> stripes(64 * 64);
  for (std::size_t i = 0; i < stripes.size(); ++i) stripes[i] = i % 2 == 0 ? 0 : 200;
  EXPECT_THAT(resized(stripes, {64, 64}, {8, 8}), Each(FloatNear(100, 4)));
}

TEST(ResizeTest, KeepsFlatImagesAndTheirRange) {
  const std::vector<std::uint8_t> white(50 * 37 * 3, 255);
  for (const ImageSize to : {ImageSize{1, 1}, {299, 299}, {50, 37}, {13, 100}, {100, 13}}) {
    const auto result = resized(white, {50, 37}, to, 3);
    EXPECT_THAT(result, Each(FloatNear(255, 1e-3)));
    EXPECT_LE(*std::ranges::max_element(result), 255) << "values are from 0 to 1";
  }
  EXPECT_THAT(resized({7}, {1, 1}, {3, 5}), Each(FloatNear(7, 1e-4)));
}

TEST(ResizeTest, ChannelsAreScaledEachOnItsOwn) {
  const std::vector<std::uint8_t> planes{0, 100, 50, 50, 100, 0};
  EXPECT_THAT(resized(planes, {1, 2}, {1, 4}, 3),
              near({0, 25, 75, 100, 50, 50, 50, 50, 100, 75, 25, 0}));
}

// The definition, in float64: each side's weights are those of the triangle, normalised.
double exact(const std::vector<std::uint8_t>& plane, ImageSize from, ImageSize to, std::int64_t y,
             std::int64_t x) {
  const auto weights = [](std::int64_t length, std::int64_t result, std::int64_t i) {
    const double step = static_cast<double>(length) / static_cast<double>(result);
    const double support = std::max(1.0, step);
    std::vector<double> all(length);
    double sum = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      all[j] = std::max(0.0, 1 - std::abs(j + 0.5 - (i + 0.5) * step) / support);
      sum += all[j];
    }
    for (double& weight : all) weight /= sum;
    return all;
  };
  const auto rows = weights(from.height, to.height, y);
  const auto columns = weights(from.width, to.width, x);
  double sum = 0;
  for (std::int64_t i = 0; i < from.height; ++i) {
    for (std::int64_t j = 0; j < from.width; ++j) {
      sum += rows[i] * columns[j] * plane[i * from.width + j];
    }
  }
  return sum;
}

TEST(ResizeTest, FollowsTheDefinitionForAnySizes) {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    const auto side = [&] { return static_cast<std::int64_t>(1 + random.below(24)); };
    const ImageSize from{side(), side()};
    const ImageSize to{side(), side()};
    std::vector<std::uint8_t> plane(from.pixels());
    for (auto& pixel : plane) pixel = static_cast<std::uint8_t>(random.below(256));
    const auto result = resized(plane, from, to);
    for (std::int64_t y = 0; y < to.height; ++y) {
      for (std::int64_t x = 0; x < to.width; ++x) {
        ASSERT_NEAR(result[y * to.width + x], exact(plane, from, to, y, x), 1e-3)
            << from.height << "x" << from.width << " to " << to.height << "x" << to.width;
      }
    }
  }
}

}  // namespace
}  // namespace colla::data
