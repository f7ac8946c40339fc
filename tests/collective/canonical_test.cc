// The promise that everything rests on: the bits of a sum depend on the values and the number of
// slices alone. Every number of slices up to 9, every number of workers up to it, every
// contiguous assignment, every algorithm, every transport, against a plain reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <type_traits>
#include <vector>

#include "colla/slices.h"
#include "collective/algorithms.h"
#include "collective/board.h"
#include "collective/canonical_reference.h"
#include "collective/collectives_fixture.h"
#include "collective/fold.h"
#include "collective/shared.h"
#include "support/ranks.h"
#include "transport/frame.h"

namespace colla {
namespace {

using test::awkward;
using test::elementOf;
using test::reference;
using test::sameBits;
using test::Values;
using test::Wire;

const std::vector<Algorithm> kByMessages = {
    Algorithm::kFlat, Algorithm::kDirect, Algorithm::kHalving, Algorithm::kTree, Algorithm::kAuto};

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

template <typename T>
struct Plan {
  SliceMap map;
  std::vector<Algorithm> algorithms;
  std::size_t count;
  Values<T> values;
  std::vector<T> sum;
};

template <typename T>
void checkAll(Wire wire, int workers, const std::vector<Plan<T>>& plans) {
  test::runRanks(wire, workers, [&](Group& group) {
    for (const Plan<T>& plan : plans) {
      std::vector<std::vector<T>> sums;
      std::vector<ConstBuffer> partials;
      for (const SliceRange subtree : plan.map.subtrees(group.rank())) {
        sums.push_back(reference(plan.values, subtree));
      }
      for (const auto& sum : sums) partials.emplace_back(sum);
      for (const Algorithm algorithm : plan.algorithms) {
        std::vector<T> result(plan.count, elementOf<T>(77.0f));
        const Status status =
            allreduce(group, plan.map, partials, result, {.algorithm = algorithm});
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(sameBits(result, plan.sum))
            << toString(dataTypeOf<T>()) << ", " << plan.map.slices() << " slices, " << workers
            << " workers, " << plan.count << " elements, " << toString(algorithm);
      }
    }
  });
}

template <typename T>
void checkShared(int workers, std::vector<Plan<T>> plans, std::initializer_list<Wire> wires) {
  for (Plan<T>& plan : plans) plan.algorithms = {Algorithm::kShared};
  for (const Wire wire : wires) checkAll(wire, workers, plans);
}

template <typename T = float>
Plan<T> makePlan(std::vector<int> first, std::vector<Algorithm> algorithms, std::size_t count,
                 unsigned seed) {
  const int slices = first.back();
  Values<T> values = awkward<T>(slices, count, seed);
  std::vector<T> sum = reference(values, {0, slices});
  return {*SliceMap::of(std::move(first)), std::move(algorithms), count, std::move(values),
          std::move(sum)};
}

// One slice each, and `more` for the last worker.
std::vector<int> oneEach(int workers, int more = 0) {
  std::vector<int> first(workers + 1);
  std::iota(first.begin(), first.end(), 0);
  first.back() += more;
  return first;
}

// Two slices for the second worker, which are not a subtree, and one for every other.
std::vector<int> twoApart(int workers) {
  std::vector<int> first = oneEach(workers);
  for (int worker = 2; worker <= workers; ++worker) ++first[worker];
  return first;
}

class CanonicalTest : public ::testing::TestWithParam<int> {};

// All assignments, at lengths that are cheap.
TEST_P(CanonicalTest, EveryAssignmentGivesTheSameBits) {
  const int workers = GetParam();
  const std::size_t lengths[] = {0, 1, 7, 17, 127};
  std::vector<Plan<float>> plans;
  for (int slices = workers; slices <= 9; ++slices) {
    for (auto& first : assignments(slices, workers)) {
      const std::size_t count = lengths[plans.size() % std::size(lengths)];
      plans.push_back(
          makePlan(std::move(first), kByMessages, count, static_cast<unsigned>(plans.size())));
    }
  }
  checkAll(Wire::kMessages, workers, plans);
  checkShared(workers, plans, {Wire::kShared});
}

// The lengths, in bytes, at which an algorithm begins to do something else, when no rank brings
// more than `leaves` partial sums.
std::vector<std::size_t> borders(std::size_t workers, std::size_t leaves) {
  using collective::Board;
  const std::size_t chunk = collective::stagedChunkBytes(leaves, workers);
  std::vector<std::size_t> all = {
      collective::kLine * workers,      // Each rank has a chunk.
      Board::kSmall / leaves,           // Posts, then staged.
      chunk,                            // The second rank's chunk of a staged block,
      chunk * workers,                  // and the second block.
      collective::Folder::kBlockBytes,  // Blocks of a fold.
      collective::kSmallBytes,          // The tree, then direct or halving;
      // flat, then direct.
      collective::kSmallBytes / std::max<std::size_t>(1, workers - 1),
      transport::kEagerLimit,       // Messages that wait for their receiver: of all,
      transport::kEagerLimit * 2,   // of halves.
      collective::kPieceBytes * 2,  // Pieces of the whole.
  };
  if (workers <= 3) {                                      // What would take long with more:
    all.push_back(chunk * workers * 2);                    // the first staging area used again,
    all.push_back(transport::kEagerLimit * workers);       // messages and
    all.push_back(collective::kPieceBytes * workers * 2);  // pieces of chunks.
  }
  return all;
}

// One below and above each of them, some in between, and partial sums that are no subtrees.
std::vector<Plan<float>> plansOfEveryLength(int workers) {
  std::mt19937 random(workers);
  std::vector<Plan<float>> plans;
  for (const int more : {0, 3}) {
    const auto first = oneEach(workers, more);
    const std::size_t leaves = SliceMap::of(first)->subtrees(workers - 1).size();
    constexpr std::size_t kLongestAnywhere = 20'000;
    std::set<std::size_t> lengths = {2, 3, 1023};
    for (const std::size_t border : borders(workers, leaves)) {
      const std::size_t limit = border / sizeof(float);
      lengths.insert({limit - 1, limit + 1, 1 + random() % std::min(limit, kLongestAnywhere)});
    }
    for (const std::size_t count : lengths) {
      plans.push_back(makePlan(
          first, more == 0 ? kByMessages : std::vector{Algorithm::kDirect, Algorithm::kAuto}, count,
          static_cast<unsigned>(count)));
    }
  }
  return plans;
}

TEST_P(CanonicalTest, EveryLengthGivesTheSameBits) {
  const int workers = GetParam();
  const std::vector<Plan<float>> plans = plansOfEveryLength(workers);
  checkAll(Wire::kMessages, workers, plans);
  checkShared(workers, plans, {Wire::kShared, Wire::kShm});
}

INSTANTIATE_TEST_SUITE_P(Workers, CanonicalTest, ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9));

template <typename T>
void checkSixteenBits() {
  for (const int workers : {2, 3, 4, 5, 8, 9}) {
    std::vector<Plan<T>> plans;
    for (const std::size_t limit : {collective::Board::kSmall, collective::kSmallBytes}) {
      const std::size_t count = limit / sizeof(T);
      for (const std::size_t length : {std::size_t{1}, std::size_t{17}, count, count + 1}) {
        plans.push_back(makePlan<T>(oneEach(workers), kByMessages, length, 3));
        plans.push_back(makePlan<T>(twoApart(workers), kByMessages, length, 4));
      }
    }
    checkAll(Wire::kMessages, workers, plans);
    checkShared(workers, plans, {Wire::kShared});
  }
}

// Rounded once, at the root, by every algorithm.
TEST(CanonicalBitsTest, BFloat16GivesTheSameBits) { checkSixteenBits<BFloat16>(); }
TEST(CanonicalBitsTest, Float16GivesTheSameBits) { checkSixteenBits<Float16>(); }

// A rounded sum of two slices could not give the bits of one process.
TEST(CanonicalBitsTest, SixteenBitSumsOfSeveralSlicesAreRefused) {
  test::runRanks(Wire::kMessages, 2, [&](Group& group) {
    const auto map = SliceMap::of({0, 1, 4});  // Slice 1 and the subtree of 2 and 3.
    const std::size_t count = map->subtrees(group.rank()).size();
    std::vector<std::vector<BFloat16>> sums(count, std::vector<BFloat16>(5));
    const std::vector<ConstBuffer> partials(sums.begin(), sums.end());
    const Status status = allreduce(group, *map, partials, sums[0]);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("keep partial sums in float32"), std::string::npos) << status;
  });
}

TEST(CanonicalBitsTest, TransportsBetweenHostsGiveTheSameBits) {
  std::vector<Plan<float>> plans;
  for (const std::size_t count : {1, 1000, 100'003}) {
    plans.push_back(makePlan({0, 2, 3, 5}, {Algorithm::kAuto, Algorithm::kTree}, count, 5));
  }
  checkAll(Wire::kTcpPlain, 3, plans);
  checkAll(Wire::kTcp, 3, plans);
  checkAll(Wire::kUcx, 3, plans);
}

// The lengths at which algorithms and messages change, over what goes between hosts.
class BetweenHostsTest : public ::testing::TestWithParam<std::tuple<Wire, int>> {};
INSTANTIATE_TEST_SUITE_P(Wires, BetweenHostsTest,
                         ::testing::Combine(::testing::Values(Wire::kTcpPlain, Wire::kTcp,
                                                              Wire::kUcx),
                                            ::testing::Values(2, 3, 4)),
                         test::caseName);

TEST_P(BetweenHostsTest, EveryLengthGivesTheSameBits) {
  const auto [wire, workers] = GetParam();
  checkAll(wire, workers, plansOfEveryLength(workers));
}

// The ring is what it is for: another order, and other bits.
TEST(CanonicalBitsTest, RingAddsInAnotherOrder) {
  const auto plan = makePlan(oneEach(5), {}, 4099, 3);
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

// An average divides once, at the root; what has sixteen bits is rounded after that.
template <typename T>
void checkAverage() {
  const auto plan = makePlan<T>(oneEach(3), {}, 1000, 9);
  const std::vector<T> expected = reference(plan.values, {0, 3}, 3);
  for (const Wire wire : {Wire::kShared, Wire::kMessages}) {
    test::runRanks(wire, 3, [&](Group& group) {
      for (const Algorithm algorithm :
           {Algorithm::kAuto, Algorithm::kFlat, Algorithm::kDirect, Algorithm::kTree}) {
        std::vector<T> data = plan.values[group.rank()];
        const Status status =
            allreduce(group, data, {.op = ReduceOp::kAverage, .algorithm = algorithm});
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(sameBits(data, expected))
            << toString(dataTypeOf<T>()) << " " << toString(algorithm);
      }
    });
  }
}

TEST(CanonicalBitsTest, AverageDividesTheSumOnce) {
  checkAverage<float>();
  checkAverage<double>();
  checkAverage<BFloat16>();
  checkAverage<Float16>();
}

}  // namespace
}  // namespace colla
