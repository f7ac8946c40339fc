// Two levels keep the promise of one: the same bits for any spread of ranks over hosts, and any map
// of slices. And they cost what they are for: a host's partial sums leave it once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "colla/topology.h"
#include "collective/algorithms.h"
#include "collective/board.h"
#include "collective/canonical_reference.h"
#include "collective/collectives_fixture.h"
#include "collective/host_tree.h"
#include "collective/kernels.h"
#include "collective/on_levels.h"
#include "transport/shared_memory.h"

namespace colla {
namespace {

using collective::HostTree;
using collective::SumTree;
using test::awkward;
using test::elementOf;
using test::HostWires;
using test::reference;
using test::sameBits;
using test::Wire;

Topology topologyOf(const std::vector<int>& hosts) {
  std::vector<std::string> names;
  for (const int host : hosts) names.push_back(std::to_string(host));
  return Topology(names, true);
}

std::vector<int> sumsPerHost(const std::vector<int>& firstSlices, const std::vector<int>& hosts) {
  const SliceMap map = *SliceMap::of(firstSlices);
  const HostTree plan(map.tree(), topologyOf(hosts));
  std::vector<int> sums;
  for (int host = 0; host < plan.above().ranks(); ++host) {
    sums.push_back(plan.above().leavesOf(host));
  }
  return sums;
}

TEST(HostTreeTest, AHostBringsItsLargestSubtrees) {
  EXPECT_EQ(sumsPerHost({0, 1, 2, 3, 4}, {0, 0, 1, 1}), (std::vector{1, 1}));
  EXPECT_EQ(sumsPerHost({0, 1, 2, 3, 4}, {0, 1, 0, 1}), (std::vector{2, 2}));
  EXPECT_EQ(sumsPerHost({0, 1, 2, 3, 4, 5, 6}, {0, 0, 0, 1, 1, 1}), (std::vector{2, 2}));
  EXPECT_EQ(sumsPerHost({0, 3, 4, 6}, {0, 0, 1}), (std::vector{1, 1}));
  EXPECT_EQ(sumsPerHost({0, 3, 5, 8}, {0, 1, 1}), (std::vector{2, 2}));
}

TEST(HostTreeTest, HalvingGoesWhereEveryHostBringsOneOfEqualSize) {
  const auto complete = [](const std::vector<int>& hosts) {
    return HostTree(SumTree::ofRanks(static_cast<int>(hosts.size())), topologyOf(hosts))
        .above()
        .complete();
  };
  EXPECT_TRUE(complete({0, 0, 1, 1}));
  EXPECT_TRUE(complete({0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_FALSE(complete({0, 1, 0, 1}));
  EXPECT_FALSE(complete({0, 0, 1, 1, 2, 2}));
  EXPECT_FALSE(complete({0, 0, 1, 2}));
}

// A spread of `ranks` over `hosts`, of which each has one at least.
std::vector<int> anySpread(int ranks, int hosts, std::mt19937& random) {
  std::vector<int> spread(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    spread[rank] = rank < hosts ? rank : static_cast<int>(random() % hosts);
  }
  if (random() % 3 == 0) {
    std::ranges::sort(spread);
  } else {
    std::ranges::shuffle(spread, random);
  }
  return spread;
}

std::vector<int> anyMap(int ranks, int slices, std::mt19937& random) {
  std::vector<int> cuts(slices - 1);
  std::iota(cuts.begin(), cuts.end(), 1);
  std::ranges::shuffle(cuts, random);
  cuts.resize(ranks - 1);
  cuts.push_back(0);
  cuts.push_back(slices);
  std::ranges::sort(cuts);
  return cuts;
}

// Memory for elements that this host's ranks see, or that nobody else does.
template <typename T>
class Elements {
 public:
  Elements(Group& group, bool shared, std::size_t count, T value)
      : own_(count, value), count_(count) {
    auto* const levels = group.core().levels();
    if (!shared || levels == nullptr || levels->board() == nullptr) return;
    region_ = *levels->inside().transport->sharedMemory()->allocate(
        std::max<std::size_t>(1, count * sizeof(T)));
    std::ranges::copy(own_, span().begin());
  }
  std::span<T> span() {
    if (region_.bytes.empty()) return own_;
    return {reinterpret_cast<T*>(region_.bytes.data()), count_};
  }

 private:
  std::vector<T> own_;
  std::size_t count_;
  transport::Mapping region_;
};

// An allreduce of a map, against the definition.
template <typename T>
void checkSums(Group& group, const std::vector<int>& first, const test::Values<T>& values,
               bool shared, ReduceOp op = ReduceOp::kSum) {
  const SliceMap map = *SliceMap::of(first);
  const std::size_t count = values[0].size();
  std::vector<Elements<T>> sums;
  std::vector<ConstBuffer> partials;
  for (const SliceRange subtree : map.subtrees(group.rank())) {
    sums.emplace_back(group, shared, count, T{});
    std::ranges::copy(reference(values, subtree), sums.back().span().begin());
  }
  for (auto& sum : sums) partials.emplace_back(sum.span());
  Elements<T> result(group, shared, count, elementOf<T>(77.0f));
  const int divisor = op == ReduceOp::kAverage ? map.slices() : 1;
  const std::vector<T> expected = reference(values, {0, map.slices()}, divisor);
  const auto check = [&](Buffer into, std::span<T> elements) {
    COLLA_ASSERT_OK(
        allreduce(group, map, partials, into, {.op = op, .algorithm = Algorithm::kLevels}));
    ASSERT_TRUE(sameBits(std::vector<T>(elements.begin(), elements.end()), expected))
        << toString(dataTypeOf<T>()) << ", " << map.slices() << " slices, " << group.size()
        << " ranks, " << count << " elements, " << (shared ? "shared" : "private");
  };
  check(result.span(), result.span());
  check(sums.back().span(), sums.back().span());  // In place of a partial sum.
}

// Around where the small way ends, a rail's part begins, small messages end, and pieces do.
std::vector<std::size_t> lengthsAround(int rails, std::mt19937& random) {
  std::vector<std::size_t> lengths = {0, 1, 17, 1 + random() % 40'000};
  const std::size_t borders[] = {collective::Board::kSmall, 2 * collective::kSmallBytes,
                                 collective::kLine * rails, collective::kPieceBytes * rails};
  for (const std::size_t border : borders) {
    const std::size_t count = border / sizeof(float);
    lengths.insert(lengths.end(), {count - 1, count + 1});
  }
  return lengths;
}

class LevelsTest : public ::testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Inside, LevelsTest, ::testing::Values(Wire::kShared, Wire::kShm),
                         [](const auto& wire) { return test::toString(wire.param); });

TEST_P(LevelsTest, AnySpreadAndAnyMapGiveTheSameBits) {
  std::mt19937 random(11);
  for (int round = 0; round < 4; ++round) {
    const int ranks = 3 + static_cast<int>(random() % 5);
    const int hosts = 2 + static_cast<int>(random() % (ranks - 2));
    const auto spread = anySpread(ranks, hosts, random);
    const int slices = ranks + static_cast<int>(random() % 6);
    const auto first = anyMap(ranks, slices, random);
    std::vector<test::Values<float>> values;
    for (const std::size_t count : lengthsAround(2, random)) {
      values.push_back(awkward<float>(slices, count, static_cast<unsigned>(count)));
    }
    test::runOnHosts(spread, {.inside = GetParam()}, [&](Group& group) {
      for (const auto& each : values) {
        // All private, all shared, and some of each.
        for (const int odd : {0, 1, 2}) {
          checkSums(group, first, each, odd == 2 ? group.rank() % 2 == 0 : odd == 1);
        }
      }
    });
  }
}

// More than one block of copies.
TEST_P(LevelsTest, LongPrivateBuffersAreCopiedInBlocks) {
  const std::size_t count = collective::kLevelsBlockBytes / sizeof(float) + 12'345;
  const auto values = awkward<float>(3, count, 5);
  test::runOnHosts({0, 0, 1}, {.inside = GetParam()}, [&](Group& group) {
    for (const bool shared : {false, true}) checkSums(group, {0, 1, 2, 3}, values, shared);
  });
}

// Among many hosts messages take several rounds; 16 hosts can halve, 10 can't.
TEST(LevelsManyHostsTest, ManyHostsGiveTheSameBits) {
  for (const int hosts : {10, 16}) {
    std::vector<int> spread, first = {0};
    for (int rank = 0; rank < 2 * hosts; ++rank) {
      spread.push_back(rank / 2);
      first.push_back(rank + 1);
    }
    for (const std::size_t count : {5, 3000, 20'000}) {
      const auto values = awkward<float>(2 * hosts, count, 7);
      const auto halves = awkward<BFloat16>(2 * hosts, count, 8);
      test::runOnHosts(spread, {}, [&](Group& group) {
        checkSums(group, first, values, true);
        checkSums(group, first, halves, true);
      });
    }
  }
}

template <typename T>
void checkSixteenBits(Wire inside) {
  std::mt19937 random(3);
  for (const auto& spread :
       {std::vector{0, 0, 1, 1}, {0, 1, 0, 1, 1}, {0, 0, 0, 1, 1, 1}, {0, 1, 1, 1, 2, 2, 2}}) {
    const int ranks = static_cast<int>(spread.size());
    std::vector<int> first(ranks + 1);
    std::iota(first.begin(), first.end(), 0);
    for (const std::size_t count : {1, 17, 4097, 9001}) {
      const auto values = awkward<T>(ranks, count, static_cast<unsigned>(random()));
      test::runOnHosts(spread, {.inside = inside}, [&](Group& group) {
        for (const bool shared : {false, true}) {
          checkSums(group, first, values, shared);
          checkSums(group, first, values, shared, ReduceOp::kAverage);
        }
      });
    }
  }
}

// Sums between hosts are float32; they are rounded once.
TEST_P(LevelsTest, SixteenBitsAreRoundedOnce) {
  checkSixteenBits<BFloat16>(GetParam());
  checkSixteenBits<Float16>(GetParam());
}

// Every type and reduction, and every collective that reduces: on two levels as on one host.
template <typename T>
void checkLikeOneHost(Wire inside, std::size_t count) {
  const std::vector<int> spread = {0, 1, 1, 0, 2, 1};
  const int ranks = static_cast<int>(spread.size());
  const auto values = awkward<T>(ranks, count * ranks, 23);
  using Results = std::vector<std::vector<std::byte>>;
  std::vector<Results> oneHost(ranks), levels(ranks);
  const auto reduceAll = [&](Group& group, Results& results) {
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      if (!collective::supported(dataTypeOf<T>(), op)) continue;
      const std::vector<T>& own = values[group.rank()];
      std::vector<T> all = own, part(count), rooted(own.size());
      COLLA_ASSERT_OK(allreduce(group, all, {.op = op}));
      COLLA_ASSERT_OK(reduceScatter(group, own, part, {.op = op}));
      for (int root = 0; root < ranks; ++root) {
        COLLA_ASSERT_OK(reduce(group, own, rooted, root, {.op = op}));
      }
      for (const auto& result : {all, part, rooted}) {
        const auto bytes = std::as_bytes(std::span(result));
        results.emplace_back(bytes.begin(), bytes.end());
      }
    }
  };
  test::runRanks(Wire::kShared, ranks,
                 [&](Group& group) { reduceAll(group, oneHost[group.rank()]); });
  test::runOnHosts(spread, {.inside = inside},
                   [&](Group& group) { reduceAll(group, levels[group.rank()]); });
  EXPECT_EQ(levels, oneHost) << toString(dataTypeOf<T>()) << " " << count;
}

TEST_P(LevelsTest, EveryReductionIsThatOfOneHost) {
  for (const std::size_t count : {3, 5000}) {
    checkLikeOneHost<float>(GetParam(), count);
    checkLikeOneHost<double>(GetParam(), count);
    checkLikeOneHost<BFloat16>(GetParam(), count);
    checkLikeOneHost<Float16>(GetParam(), count);
    checkLikeOneHost<std::int64_t>(GetParam(), count);
    checkLikeOneHost<std::uint8_t>(GetParam(), count);
  }
}

// What one allreduce sends between hosts.
class Costs {
 public:
  Costs(int hosts, int perHost) : bytes_(hosts), messages_(hosts * perHost) {
    for (int rank = 0; rank < hosts * perHost; ++rank) spread_.push_back(rank / perHost);
  }

  void measure(std::size_t count, Wire inside) {
    std::barrier<> outside(static_cast<std::ptrdiff_t>(spread_.size()));
    const auto sent = [&](int from, int, std::size_t bytes) {
      if (!counting_) return;
      bytes_[spread_[from]] += bytes;
      ++messages_[from];
    };
    test::runOnHosts(spread_, {.inside = inside, .sent = sent}, [&](Group& group) {
      std::vector<float> data(count, 1.0f);
      outside.arrive_and_wait();
      counting_ = true;
      outside.arrive_and_wait();
      COLLA_ASSERT_OK(allreduce(group, data));
      outside.arrive_and_wait();
      counting_ = false;
      outside.arrive_and_wait();
      ASSERT_EQ(data, std::vector<float>(count, static_cast<float>(group.size())));
    });
  }

  std::size_t mostBytesOfHost() const { return *std::ranges::max_element(bytes_); }
  int mostMessagesOfRank() const { return *std::ranges::max_element(messages_); }

 private:
  std::vector<int> spread_;
  std::vector<std::atomic<std::size_t>> bytes_;
  std::vector<std::atomic<int>> messages_;
  std::atomic<bool> counting_ = false;
};

TEST_P(LevelsTest, WhatLeavesAHostDoesNotGrowWithItsRanks) {
  constexpr std::size_t kCount = 1 << 20;
  for (const int perHost : {2, 4}) {
    Costs costs(2, perHost);
    costs.measure(kCount, GetParam());
    EXPECT_EQ(costs.mostBytesOfHost(), kCount * sizeof(float));
    EXPECT_LE(costs.mostMessagesOfRank(), 2);
  }
}

TEST(LevelsCostsTest, SixtyFourRanksOnEightHosts) {
  constexpr std::size_t kCount = 1 << 20;
  Costs costs(8, 8);
  costs.measure(kCount, Wire::kShared);
  EXPECT_LE(costs.mostBytesOfHost(), kCount * sizeof(float) * 2 * 7 / 8 * 105 / 100);
  EXPECT_LE(costs.mostMessagesOfRank(), 14);
}

// One message from each host.
TEST(LevelsCostsTest, ASmallSumIsOneMessageForEachHost) {
  constexpr std::size_t kCount = 256;
  Costs costs(2, 4);
  costs.measure(kCount, Wire::kShared);
  EXPECT_EQ(costs.mostBytesOfHost(), kCount * sizeof(float));
  EXPECT_EQ(costs.mostMessagesOfRank(), 1);
}

}  // namespace
}  // namespace colla
