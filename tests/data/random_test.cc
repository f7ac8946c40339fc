#include "colla/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace colla {
namespace {

// Contract: the numbers never change, on no machine; runs and checkpoints depend on them.
TEST(RandomTest, StreamsAreFixedForever) {
  // SplitMix64 from state 0, as published; the others by an implementation in Python.
  EXPECT_EQ(mixBits(0), 0xe220a8397b1dcdafU);
  EXPECT_EQ(streamSeed(1, 2, 3), mixBits(mixBits(mixBits(1) ^ 2) ^ 3));
  EXPECT_EQ(streamSeed(1, 2, 3), 0xd0734750fde362b3U);
  Random random(1, 2, 3);
  EXPECT_EQ(random.next(), 0x49866c4afe18581fU);
  EXPECT_EQ(random.next(), 0xf7ea9df3522ec45dU);
  EXPECT_EQ(random.below(1000), 877U);
  EXPECT_EQ(random.uniform(), 15391450 * 0x1p-24F);
}

TEST(RandomTest, EveryTripleHasItsOwnStream) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t step = 0; step < 20; ++step) {
      seeds.insert(streamSeed(seed, step, kOrderStream));
      for (std::uint64_t slice = 0; slice < 20; ++slice) {
        seeds.insert(streamSeed(seed, step, slice));
      }
    }
  }
  EXPECT_EQ(seeds.size(), 20U * 20U * 21U);
}

TEST(RandomTest, BelowIsEven) {
  Random random(7);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60'000; ++i) ++counts[random.below(6)];
  // Five standard deviations of a fair die.
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 460);
  // A bound for which almost half of all draws have to be refused.
  const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;
  int upper = 0;
  for (int i = 0; i < 10'000; ++i) upper += random.below(bound) >= bound / 2 ? 1 : 0;
  EXPECT_NEAR(upper, 5'000, 250);
}

TEST(RandomTest, UniformStaysBelowOne) {
  Random random(8);
  float least = 1;
  float most = 0;
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const float value = random.uniform();
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
  EXPECT_GE(least, 0.0F);
  EXPECT_LT(most, 1.0F);
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

}  // namespace
}  // namespace colla
