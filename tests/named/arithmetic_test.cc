#include "named/arithmetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace colla::named {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> scaled(std::vector<T> values, double factor) {
  const auto bytes = std::as_writable_bytes(std::span(values));
  scale(dataTypeOf<T>(), bytes, bytes, factor);
  return values;
}

TEST(ArithmeticTest, ScalesEveryType) {
  EXPECT_THAT(scaled<float>({1.5f, -2}, 0.5), ElementsAre(0.75f, -1.0f));
  EXPECT_THAT(scaled<double>({0.1}, 3), ElementsAre(0.1 * 3));
  EXPECT_THAT(scaled<std::int32_t>({7, -7}, 0.5), ElementsAre(3, -3));
  EXPECT_THAT(scaled<std::int64_t>({1LL << 40}, 2), ElementsAre(1LL << 41));
  EXPECT_THAT(scaled<std::int16_t>({100}, 1.99), ElementsAre(199));
  EXPECT_THAT(scaled<std::int8_t>({100, -100}, 2), ElementsAre(127, -128));
  EXPECT_THAT(scaled<std::uint8_t>({200, 3}, 2), ElementsAre(255, 6));
  EXPECT_THAT(scaled<std::int32_t>({5}, std::nan("")), ElementsAre(0));
  EXPECT_THAT(scaled<std::int64_t>({1LL << 62}, 4),
              ElementsAre(std::numeric_limits<std::int64_t>::max()));
  // 1.0 and -2.5; half of them, and a third, rounded to nearest.
  const auto half = scaled<Float16>({{0x3c00}, {0xc100}}, 0.5);
  EXPECT_EQ(half[0].bits, 0x3800);
  EXPECT_EQ(half[1].bits, 0xbd00);
  EXPECT_EQ(scaled<BFloat16>({{0x3f80}}, 1.0 / 3)[0].bits, 0x3eab);
}

TEST(ArithmeticTest, DividesTowardsZero) {
  std::vector<std::int32_t> values = {7, -7, 6};
  divide(DataType::kInt32, std::as_writable_bytes(std::span(values)), 3);
  EXPECT_THAT(values, ElementsAre(2, -2, 2));
  std::vector<std::uint8_t> small = {255};
  divide(DataType::kUInt8, std::as_writable_bytes(std::span(small)), 2);
  EXPECT_THAT(small, ElementsAre(127));
}

template <typename T>
std::vector<T> together(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out(a.size());
  adasum(dataTypeOf<T>(), std::as_bytes(std::span(a)), std::as_bytes(std::span(b)),
         std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(ArithmeticTest, AdasumAddsWhatIsOrthogonalAndAveragesWhatIsParallel) {
  EXPECT_THAT(together<float>({3, 0}, {0, 4}), ElementsAre(3.0f, 4.0f));
  EXPECT_THAT(together<float>({3, 4}, {3, 4}), ElementsAre(3.0f, 4.0f));
  EXPECT_THAT(together<double>({2, 0}, {4, 0}), ElementsAre(3.0, 0.0));
  EXPECT_THAT(together<double>({0, 0}, {4, 5}), ElementsAre(4.0, 5.0));
  EXPECT_THAT(together<double>({4, 5}, {0, 0}), ElementsAre(4.0, 5.0));
  // 1 - 1/(2*1) of the first and 1 - 1/(2*2) of the second.
  EXPECT_THAT(together<double>({1, 0}, {1, 1}), ElementsAre(1.25, 0.75));
  const auto half = together<Float16>({{0x3c00}, {0}}, {{0x3c00}, {0x3c00}});
  EXPECT_EQ(half[0].bits, 0x3d00);  // 1.25
  EXPECT_EQ(half[1].bits, 0x3a00);  // 0.75
}

}  // namespace
}  // namespace colla::named
