// Two levels keep the promise of one: the same bits for any spread of ranks over hosts, and any map
// of slices. And they cost what they are for: a host's partial sums leave it once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <span>
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
                                 collective::kLine * rails, 2 * collective::kPieceBytes * rails};
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

// Every way to put `ranks` on hosts, up to the names of hosts.
std::vector<std::vector<int>> spreadsOf(int ranks) {
  std::vector<std::vector<int>> all = {{}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::vector<int>> longer;
    for (const auto& spread : all) {
      const int hosts = spread.empty() ? 0 : *std::ranges::max_element(spread) + 1;
      for (int host = 0; host <= hosts; ++host) {
        longer.push_back(spread);
        longer.back().push_back(host);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// Every way to cut `slices` among `ranks`.
std::vector<std::vector<int>> mapsOf(int ranks, int slices) {
  std::vector<std::vector<int>> all;
  std::vector<bool> cuts(slices - 1, false);
  std::fill_n(cuts.begin(), ranks - 1, true);
  do {
    std::vector<int> first = {0};
    for (int slice = 1; slice < slices; ++slice) {
      if (cuts[slice - 1]) first.push_back(slice);
    }
    first.push_back(slices);
    all.push_back(std::move(first));
  } while (std::prev_permutation(cuts.begin(), cuts.end()));
  return all;
}

// All of up to five ranks and eight slices: what travels in posts, and what rails carry.
TEST(EverySpreadTest, AndEveryMapGiveTheSameBits) {
  std::size_t cases = 0;
  for (int ranks = 2; ranks <= 5; ++ranks) {
    std::vector<std::vector<int>> maps;
    for (int slices = ranks; slices <= ranks + 3; ++slices) {
      std::ranges::move(mapsOf(ranks, slices), std::back_inserter(maps));
    }
    const std::size_t longer = collective::Board::kSmall / sizeof(float) + 30;
    const auto few = awkward<float>(ranks + 3, 7, 1);
    const auto many = awkward<float>(ranks + 3, longer, 2);
    for (const auto& spread : spreadsOf(ranks)) {
      cases += maps.size();
      test::runOnHosts(spread, {}, [&](Group& group) {
        for (std::size_t i = 0; i < maps.size() && !::testing::Test::HasFailure(); ++i) {
          checkSums(group, maps[i], few, false);
          checkSums(group, maps[i], many, i % 2 == 0);
        }
      });
      ASSERT_FALSE(HasFailure()) << ::testing::PrintToString(spread);
    }
  }
  EXPECT_EQ(cases, 2u * 10 + 5u * 20 + 15u * 35 + 52u * 56);
}

// More than one block of copies, and more than one round.
TEST_P(LevelsTest, LongPrivateBuffersAreCopiedInBlocks) {
  const auto check = [&](const std::vector<int>& spread, std::size_t rails) {
    const std::size_t count = rails * collective::kLevelsRailBytes / sizeof(float) + 12'345;
    const auto values = awkward<float>(static_cast<int>(spread.size()), count, 5);
    std::vector<int> first(spread.size() + 1);
    std::iota(first.begin(), first.end(), 0);
    test::runOnHosts(spread, {.inside = GetParam()}, [&](Group& group) {
      for (const bool shared : {false, true}) checkSums(group, first, values, shared);
    });
  };
  check({0, 0, 1}, 1);
  if (GetParam() == Wire::kShared) check({0, 1, 1, 0}, 2);
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

  // An allreduce.
  void measure(std::size_t count, Wire inside) {
    measure(inside, [count](Group& group) {
      std::vector<float> data(count, 1.0f);
      COLLA_ASSERT_OK(allreduce(group, data));
      ASSERT_EQ(data, std::vector<float>(count, static_cast<float>(group.size())));
    });
  }

  void measure(Wire inside, const std::function<void(Group&)>& operation) {
    std::barrier<> outside(static_cast<std::ptrdiff_t>(spread_.size()));
    const auto sent = [&](int from, int, std::size_t bytes) {
      if (!counting_) return;
      bytes_[spread_[from]] += bytes;
      ++messages_[from];
    };
    test::runOnHosts(spread_, {.inside = inside, .sent = sent}, [&](Group& group) {
      outside.arrive_and_wait();
      counting_ = true;
      outside.arrive_and_wait();
      operation(group);
      outside.arrive_and_wait();
      counting_ = false;
      outside.arrive_and_wait();
    });
  }

  std::size_t bytesOfHost(int host) const { return bytes_[host]; }
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
  for (const std::size_t bytes : {64 << 10, 256 << 10, 4 << 20}) {
    Costs costs(8, 8);
    costs.measure(bytes / sizeof(float), Wire::kShared);
    EXPECT_LE(costs.mostBytesOfHost(), bytes * 2 * 7 / 8 * 105 / 100) << bytes;
    EXPECT_LE(costs.mostMessagesOfRank(), 14) << bytes;
  }
}

// A rail of eight hosts carries this much of 100 MiB on 8x8: still one message to each host and
// back.
TEST(LevelsCostsTest, AsManyMessagesForALongBuffer) {
  constexpr std::size_t kBytes = std::size_t{25} << 20;
  Costs costs(8, 2);
  costs.measure(kBytes / sizeof(float), Wire::kShared);
  EXPECT_LE(costs.mostBytesOfHost(), kBytes * 2 * 7 / 8 * 105 / 100);
  EXPECT_LE(costs.mostMessagesOfRank(), 14);
}

// Sums of 16-bit floats are float32 on their way, results are not.
TEST(LevelsCostsTest, ResultsOfSixteenBitsTravelWithSixteenBits) {
  constexpr std::size_t kCount = 1 << 20;
  Costs costs(2, 2);
  costs.measure(Wire::kShared, [](Group& group) {
    std::vector<BFloat16> data(kCount, elementOf<BFloat16>(1.0f));
    COLLA_ASSERT_OK(allreduce(group, data));
    ASSERT_TRUE(sameBits(data, std::vector<BFloat16>(kCount, elementOf<BFloat16>(4.0f))));
  });
  EXPECT_EQ(costs.mostBytesOfHost(), kCount / 2 * (sizeof(float) + sizeof(BFloat16)));
}

// The other collectives, of two hosts with two ranks each: a host sends what the other one lacks,
// once.
TEST_P(LevelsTest, OtherCollectivesSendWhatTheOtherHostLacks) {
  constexpr std::size_t kPart = 1 << 18;  // Of each rank.
  constexpr std::size_t kBytes = 4 * kPart * sizeof(float);
  const auto costsOf =
      [&](const std::function<Status(Group&, std::span<float>, std::span<float>)>& call) {
        auto costs = std::make_unique<Costs>(2, 2);
        costs->measure(GetParam(), [&](Group& group) {
          std::vector<float> all(4 * kPart, 1.0f), part(kPart, 1.0f);
          COLLA_ASSERT_OK(call(group, all, part));
        });
        return costs;
      };
  const auto scattered =
      costsOf([](Group& group, auto all, auto part) { return reduceScatter(group, all, part); });
  EXPECT_EQ(scattered->mostBytesOfHost(), kBytes / 2);
  EXPECT_LE(scattered->mostMessagesOfRank(), 1);

  const auto gathered =
      costsOf([](Group& group, auto all, auto part) { return allgather(group, part, all); });
  EXPECT_EQ(gathered->mostBytesOfHost(), kBytes / 2);
  EXPECT_LE(gathered->mostMessagesOfRank(), 2);

  for (const int root : {0, 3}) {
    const auto broadcasted =
        costsOf([&](Group& group, auto all, auto) { return broadcast(group, all, root); });
    EXPECT_EQ(broadcasted->bytesOfHost(root / 2), kBytes);
    EXPECT_EQ(broadcasted->bytesOfHost(1 - root / 2), 0u);
    EXPECT_LE(broadcasted->mostMessagesOfRank(), 4);

    const auto reduced = costsOf([&](Group& group, std::span<float> all, auto) {
      std::vector<float> result(all.size());
      return reduce(group, all, result, root);
    });
    EXPECT_LE(reduced->mostBytesOfHost(), kBytes);
    EXPECT_LE(reduced->mostMessagesOfRank(), 2);
  }

  const auto exchanged = costsOf([](Group& group, std::span<float> all, auto) {
    std::vector<float> result(all.size());
    return alltoall(group, all, result);
  });
  EXPECT_EQ(exchanged->mostBytesOfHost(), kBytes);
  EXPECT_LE(exchanged->mostMessagesOfRank(), 4);

  const auto met = costsOf([](Group& group, auto, auto) { return barrier(group); });
  EXPECT_LE(met->mostBytesOfHost(), 64u);
  EXPECT_LE(met->mostMessagesOfRank(), 1);
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
