// The promise that everything rests on: the bits of a sum depend on the values and the number of
// slices alone. Every number of slices up to 9, every number of workers up to it, every
// contiguous assignment, every algorithm, every transport, against a plain reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "colla/slices.h"
#include "collective/board.h"
#include "collective/ranks.h"

namespace colla {
namespace {

using test::Wire;

using Values = std::vector<std::vector<float>>;  // [slice][element]

// The sum of a range of slices, from the definition.
float reference(const Values& values, SliceRange range, std::size_t element) {
  if (range.size() == 1) return 0.0f + values[range.begin][element];
  const int middle = splitPoint(range);
  return reference(values, {range.begin, middle}, element) +
         reference(values, {middle, range.end}, element);
}

std::vector<float> reference(const Values& values, SliceRange range) {
  std::vector<float> sum(values[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = reference(values, range, i);
  return sum;
}

// Values that make a wrong order visible: magnitudes far apart, subnormals, zeros of both signs.
Values awkward(int slices, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-2, 2);
  Values values(slices, std::vector<float>(count));
  for (auto& slice : values) {
    for (float& value : slice) {
      switch (random() % 8) {
        case 0:
          value = -0.0f;
          break;
        case 1:
          value = std::ldexp(mantissa(random), -140);
          break;
        default:
          value = std::ldexp(mantissa(random), static_cast<int>(random() % 40) - 20);
      }
    }
  }
  return values;
}

// All ways to give `slices` to `workers`, each at least one.
std::vector<std::vector<int>> assignments(int slices, int workers) {
  std::vector<std::vector<int>> all;
  for (unsigned cuts = 0; cuts < 1U << (slices - 1); ++cuts) {
    if (std::popcount(cuts) != workers - 1) continue;
    std::vector<int> first = {0};
    for (int slice = 1; slice < slices; ++slice) {
      if ((cuts >> (slice - 1) & 1) != 0) first.push_back(slice);
    }
    first.push_back(slices);
    all.push_back(std::move(first));
  }
  return all;
}

bool sameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

struct Plan {
  SliceMap map;
  std::vector<Algorithm> algorithms;
  std::size_t count;
  Values values;
  std::vector<float> sum;
};

void checkAll(Wire wire, int workers, const std::vector<Plan>& plans) {
  test::runRanks(wire, workers, [&](Group& group) {
    for (const Plan& plan : plans) {
      std::vector<std::vector<float>> sums;
      std::vector<ConstBuffer> partials;
      for (const SliceRange subtree : plan.map.subtrees(group.rank())) {
        sums.push_back(reference(plan.values, subtree));
      }
      for (const auto& sum : sums) partials.emplace_back(sum);
      for (const Algorithm algorithm : plan.algorithms) {
        std::vector<float> result(plan.count, NAN);
        const Status status =
            allreduce(group, plan.map, partials, result, {.algorithm = algorithm});
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(sameBits(result, plan.sum))
            << plan.map.slices() << " slices, " << workers << " workers, " << plan.count
            << " elements, " << toString(algorithm);
      }
    }
  });
}

Plan makePlan(std::vector<int> first, std::vector<Algorithm> algorithms, std::size_t count,
              unsigned seed) {
  const int slices = first.back();
  Values values = awkward(slices, count, seed);
  std::vector<float> sum = reference(values, {0, slices});
  return {*SliceMap::of(std::move(first)), std::move(algorithms), count, std::move(values),
          std::move(sum)};
}

class CanonicalTest : public ::testing::TestWithParam<int> {};

// All assignments, at lengths that are cheap.
TEST_P(CanonicalTest, EveryAssignmentGivesTheSameBits) {
  const int workers = GetParam();
  const std::size_t lengths[] = {0, 1, 7, 17, 127};
  std::vector<Plan> plans;
  for (int slices = workers; slices <= 9; ++slices) {
    for (auto& first : assignments(slices, workers)) {
      const std::size_t count = lengths[plans.size() % std::size(lengths)];
      plans.push_back(makePlan(std::move(first),
                               {Algorithm::kFlat, Algorithm::kDirect, Algorithm::kHalving,
                                Algorithm::kTree, Algorithm::kAuto},
                               count, static_cast<unsigned>(plans.size())));
    }
  }
  checkAll(Wire::kMessages, workers, plans);
  for (Plan& plan : plans) plan.algorithms = {Algorithm::kShared};
  checkAll(Wire::kShared, workers, plans);
}

// One below and above each threshold: small posts, flat messages, chunks, pieces, blocks.
TEST_P(CanonicalTest, EveryLengthGivesTheSameBits) {
  const int workers = GetParam();
  const std::size_t small = collective::Board::kSmall / sizeof(float);
  std::vector<std::size_t> lengths = {2, 3, 15, 16, 31, 1023, 1025, 4099};
  for (const std::size_t limit :
       {small, small / 2, std::size_t{32 << 10} / 4, std::size_t{64 << 10} / 4 * workers,
        std::size_t{128 << 10} / 4 * workers, std::size_t{1 << 20} / 4}) {
    lengths.insert(lengths.end(), {limit - 1, limit, limit + 1});
  }
  std::vector<Plan> plans;
  for (const std::size_t count : lengths) {
    std::vector<int> first(workers + 1);
    for (int i = 0; i <= workers; ++i) first[i] = i;  // One slice each,
    plans.push_back(makePlan(first,
                             {Algorithm::kFlat, Algorithm::kDirect, Algorithm::kHalving,
                              Algorithm::kTree, Algorithm::kAuto},
                             count, static_cast<unsigned>(count)));
    first.back() += 3;  // and ranges that are no subtrees.
    plans.push_back(makePlan(first, {Algorithm::kDirect, Algorithm::kAuto}, count,
                             static_cast<unsigned>(count) + 1));
  }
  checkAll(Wire::kMessages, workers, plans);
  for (Plan& plan : plans) plan.algorithms = {Algorithm::kShared};
  checkAll(Wire::kShared, workers, plans);
  checkAll(Wire::kShm, workers, plans);
}

INSTANTIATE_TEST_SUITE_P(Workers, CanonicalTest, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9));

TEST(CanonicalBitsTest, TcpGivesTheSameBits) {
  std::vector<Plan> plans;
  for (const std::size_t count : {1, 1000, 100'003}) {
    plans.push_back(makePlan({0, 2, 3, 5}, {Algorithm::kAuto, Algorithm::kTree}, count, 5));
  }
  checkAll(Wire::kTcpPlain, 3, plans);
  checkAll(Wire::kTcp, 3, plans);
}

// The ring is what it is for: another order, and other bits.
TEST(CanonicalBitsTest, RingAddsInAnotherOrder) {
  const Plan plan = makePlan({0, 1, 2, 3, 4, 5}, {}, 4099, 3);
  test::runRanks(Wire::kMessages, 5, [&](Group& group) {
    std::vector<float> data = plan.values[group.rank()];
    const Status status = allreduce(group, data, {.algorithm = Algorithm::kRing});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_FALSE(sameBits(data, plan.sum));
    for (std::size_t i = 0; i < data.size(); ++i) {
      float magnitude = 0;
      for (const auto& slice : plan.values) magnitude += std::fabs(slice[i]);
      ASSERT_NEAR(data[i], plan.sum[i], magnitude * 1e-6f);
    }
  });
}

// Any of a rank's partial sums may be the memory of the result, and one worker is a group too.
TEST(CanonicalBitsTest, TheResultMayBeAnyPartialSum) {
  for (const int workers : {1, 2}) {
    test::runRanks(Wire::kMessages, workers, [&](Group& group) {
      // Three slices each, no subtree.
      const auto map = SliceMap::of(workers == 1 ? std::vector{0, 6} : std::vector{0, 3, 6});
      const auto subtrees = map->subtrees(group.rank());
      for (const Algorithm algorithm : {Algorithm::kFlat, Algorithm::kDirect, Algorithm::kHalving,
                                        Algorithm::kTree, Algorithm::kRing}) {
        for (std::size_t target = 0; target < subtrees.size(); ++target) {
          std::vector<std::vector<float>> sums;
          std::vector<ConstBuffer> partials;
          for (const SliceRange subtree : subtrees) {
            sums.emplace_back(100, static_cast<float>(subtree.size()));  // Every slice brings 1.
          }
          for (const auto& sum : sums) partials.emplace_back(sum);
          const Status status = allreduce(group, *map, partials, sums[target],
                                          {.op = ReduceOp::kAverage, .algorithm = algorithm});
          ASSERT_TRUE(status.ok()) << status;
          ASSERT_EQ(sums[target], std::vector<float>(100, 1.0f)) << toString(algorithm);
        }
      }
    });
  }
}

// Sixteen-bit sums are rounded at each node; averages divide once.
TEST(CanonicalBitsTest, AverageDividesTheSumOnce) {
  const Plan plan = makePlan({0, 1, 2, 3}, {}, 1000, 9);
  for (const Wire wire : {Wire::kShared, Wire::kMessages}) {
    test::runRanks(wire, 3, [&](Group& group) {
      std::vector<float> data = plan.values[group.rank()];
      const Status status = allreduce(group, data, {.op = ReduceOp::kAverage});
      ASSERT_TRUE(status.ok()) << status;
      for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], plan.sum[i] / 3.0f);
    });
  }
}

}  // namespace
}  // namespace colla
