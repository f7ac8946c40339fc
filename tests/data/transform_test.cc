#include "data/image/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace colla::data {
namespace {

using ::testing::ElementsAre;

std::vector<int> cropped(const Crop& crop) {
  const std::vector<std::uint8_t> planes{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
  std::vector<std::uint8_t> result(12, 99);
  applyCrop({planes.data(), 2, {2, 3}}, crop, result.data());
  return {result.begin(), result.end()};
}

TEST(TransformTest, CropsMoveTheImageOverBlack) {
  EXPECT_THAT(cropped({}), ElementsAre(1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16));
  EXPECT_THAT(cropped({.right = 1}), ElementsAre(2, 3, 0, 5, 6, 0, 12, 13, 0, 15, 16, 0));
  EXPECT_THAT(cropped({.right = -2}), ElementsAre(0, 0, 1, 0, 0, 4, 0, 0, 11, 0, 0, 14));
  EXPECT_THAT(cropped({.down = 1}), ElementsAre(4, 5, 6, 0, 0, 0, 14, 15, 16, 0, 0, 0));
  EXPECT_THAT(cropped({.down = -1, .mirror = true}),
              ElementsAre(0, 0, 0, 3, 2, 1, 0, 0, 0, 13, 12, 11));
  EXPECT_THAT(cropped({.right = 1, .mirror = true}),
              ElementsAre(0, 3, 2, 0, 6, 5, 0, 13, 12, 0, 16, 15));
}

TEST(TransformTest, ChoicesAreAllThereIsAndEquallyLikely) {
  Random random(7);
  std::set<std::int64_t> down;
  std::set<std::int64_t> right;
  int mirrored = 0;
  for (int i = 0; i < 1000; ++i) {
    const Crop crop = randomCrop({32, 16}, random);
    down.insert(crop.down);
    right.insert(crop.right);
    mirrored += crop.mirror ? 1 : 0;
  }
  EXPECT_THAT(down, ElementsAre(-4, -3, -2, -1, 0, 1, 2, 3, 4));  // CIFAR's usual four pixels.
  EXPECT_THAT(right, ElementsAre(-2, -1, 0, 1, 2));
  EXPECT_NEAR(mirrored, 500, 60);
}

TEST(TransformTest, OnlyAugmentingTakesRandomNumbers) {
  std::vector<std::uint8_t> planes(3 * 16 * 16);
  std::iota(planes.begin(), planes.end(), std::uint8_t{0});
  const ImageView image{planes.data(), 3, {16, 16}};
  std::vector<float> result(3 * 8 * 8);
  ImageTransform::Scratch scratch;
  Random used(1);
  Random untouched(1);
  ImageTransform({8, 8}, false).apply(image, used, scratch, result.data());
  EXPECT_EQ(used.next(), untouched.next());
  ImageTransform({8, 8}, true).apply(image, used, scratch, result.data());
  EXPECT_NE(used.next(), untouched.next());
}

TEST(TransformTest, ScratchFromAnotherSizeDoesNoHarm) {
  std::vector<std::uint8_t> planes(20 * 20, 50);
  const ImageTransform transform({4, 4}, false);
  ImageTransform::Scratch scratch;
  Random random(1);
  std::vector<float> result(16);
  for (const ImageSize size : {ImageSize{20, 20}, {3, 20}, {20, 3}, {20, 20}, {4, 4}}) {
    transform.apply({planes.data(), 1, size}, random, scratch, result.data());
    for (const float value : result) EXPECT_FLOAT_EQ(value, 50 / 255.0F);
  }
}

}  // namespace
}  // namespace colla::data
