// Every collective on every wire: results, mismatches, groups, asynchronous use.
#include "colla/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

#include "collective/board.h"
#include "collective/ranks.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
using test::Wire;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Lengths on both sides of the thresholds; small numbers, so that every sum is exact.
const std::size_t kLengths[] = {0, 1, 5, 1000, 2048, 2049, 40'000, 300'001};

int valueAt(int rank, std::size_t index) {
  return static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 11) - 3;
}

std::vector<std::int32_t> dataOf(int rank, std::size_t count, std::size_t offset = 0) {
  std::vector<std::int32_t> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = valueAt(rank, i + offset);
  return data;
}

std::vector<std::int32_t> sumOf(int ranks, std::size_t count, std::size_t offset = 0) {
  std::vector<std::int32_t> sum(count, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += valueAt(rank, i + offset);
  }
  return sum;
}

#define COLLA_ASSERT_OK(expression)                                       \
  do {                                                                    \
    const Status assertStatus = (expression);                             \
    ASSERT_TRUE(assertStatus.ok()) << assertStatus << " in " #expression; \
  } while (false)

class CollectivesTest : public ::testing::TestWithParam<std::tuple<Wire, int>> {
 protected:
  void run(const std::function<void(Group&)>& body, std::chrono::milliseconds timeout = 20s) {
    test::runRanks(std::get<0>(GetParam()), ranks(), body, timeout);
  }
  // Until all ranks are through with what they did before: a rank that breaks the group breaks
  // it for those that are an operation behind, too.
  void meetOutside() { outside_.arrive_and_wait(); }
  int ranks() const { return std::get<1>(GetParam()); }

 private:
  std::barrier<> outside_{ranks()};
};

TEST_P(CollectivesTest, Allreduce) {
  run([&](Group& group) {
    for (const std::size_t count : kLengths) {
      auto data = dataOf(group.rank(), count);
      COLLA_ASSERT_OK(allreduce(group, data));
      ASSERT_EQ(data, sumOf(ranks(), count)) << count;
    }
  });
}

TEST_P(CollectivesTest, Broadcast) {
  run([&](Group& group) {
    for (int root = 0; root < ranks(); ++root) {
      for (const std::size_t count : kLengths) {
        auto data = dataOf(group.rank(), count);
        COLLA_ASSERT_OK(broadcast(group, data, root));
        ASSERT_EQ(data, dataOf(root, count)) << count;
      }
    }
  });
}

TEST_P(CollectivesTest, Reduce) {
  run([&](Group& group) {
    for (int root = 0; root < ranks(); ++root) {
      for (const std::size_t count : kLengths) {
        const auto data = dataOf(group.rank(), count);
        std::vector<std::int32_t> result(group.rank() == root ? count : 0);
        COLLA_ASSERT_OK(reduce(group, data, result, root));
        if (group.rank() == root) {
          ASSERT_EQ(result, sumOf(ranks(), count)) << count;
        }
      }
    }
  });
}

TEST_P(CollectivesTest, ReduceScatter) {
  run([&](Group& group) {
    for (const std::size_t count : kLengths) {
      const auto data = dataOf(group.rank(), count * ranks());
      std::vector<std::int32_t> result(count);
      COLLA_ASSERT_OK(reduceScatter(group, data, result));
      ASSERT_EQ(result, sumOf(ranks(), count, count * group.rank())) << count;
    }
  });
}

TEST_P(CollectivesTest, Allgather) {
  run([&](Group& group) {
    for (const std::size_t count : kLengths) {
      const auto data = dataOf(group.rank(), count);
      std::vector<std::int32_t> result(count * ranks());
      COLLA_ASSERT_OK(allgather(group, data, result));
      std::vector<std::int32_t> expected;
      for (int rank = 0; rank < ranks(); ++rank) {
        const auto part = dataOf(rank, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      ASSERT_EQ(result, expected) << count;
      // In place: the rank's own part of the result.
      std::fill(result.begin(), result.end(), 0);
      const std::span<std::int32_t> own = std::span(result).subspan(count * group.rank(), count);
      std::copy(data.begin(), data.end(), own.begin());
      COLLA_ASSERT_OK(allgather(group, own, result));
      ASSERT_EQ(result, expected) << count;
    }
  });
}

TEST_P(CollectivesTest, Allgatherv) {
  run([&](Group& group) {
    for (const std::size_t base : {0, 3, 5000, 200'000}) {
      std::vector<std::size_t> counts;
      std::vector<std::int32_t> expected;
      for (int rank = 0; rank < ranks(); ++rank) {
        counts.push_back(rank % 3 == 1 ? 0 : base * rank + 1);
        const auto part = dataOf(rank, counts.back());
        expected.insert(expected.end(), part.begin(), part.end());
      }
      std::vector<std::int32_t> result(expected.size());
      COLLA_ASSERT_OK(
          allgatherv(group, dataOf(group.rank(), counts[group.rank()]), result, counts));
      ASSERT_EQ(result, expected) << base;
    }
  });
}

TEST_P(CollectivesTest, Alltoall) {
  run([&](Group& group) {
    for (const std::size_t count : kLengths) {
      const auto data = dataOf(group.rank(), count * ranks());
      std::vector<std::int32_t> result(count * ranks());
      COLLA_ASSERT_OK(alltoall(group, data, result));
      for (int rank = 0; rank < ranks(); ++rank) {
        const std::vector<std::int32_t> part(result.begin() + rank * count,
                                             result.begin() + (rank + 1) * count);
        ASSERT_EQ(part, dataOf(rank, count, count * group.rank())) << count;
      }
    }
  });
}

TEST_P(CollectivesTest, Alltoallv) {
  // Rank a sends (a + 2b) % 4 units to rank b.
  const auto units = [](int from, int to) { return static_cast<std::size_t>((from + 2 * to) % 4); };
  run([&](Group& group) {
    for (const std::size_t unit : {1, 1000, 150'000}) {
      std::vector<std::size_t> sends, recvs;
      std::size_t sent = 0;
      for (int rank = 0; rank < ranks(); ++rank) {
        sends.push_back(unit * units(group.rank(), rank));
        recvs.push_back(unit * units(rank, group.rank()));
        sent += sends.back();
      }
      const auto data = dataOf(group.rank(), sent);
      std::vector<std::int32_t> result(std::accumulate(recvs.begin(), recvs.end(), std::size_t{0}));
      COLLA_ASSERT_OK(alltoallv(group, data, sends, result, recvs));
      std::vector<std::int32_t> expected;
      for (int rank = 0; rank < ranks(); ++rank) {
        std::size_t before = 0;
        for (int to = 0; to < group.rank(); ++to) before += unit * units(rank, to);
        const auto part = dataOf(rank, recvs[rank], before);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      ASSERT_EQ(result, expected) << unit;
    }
  });
}

TEST_P(CollectivesTest, GatherAndScatter) {
  run([&](Group& group) {
    for (int root = 0; root < ranks(); ++root) {
      for (const std::size_t count : kLengths) {
        const bool mine = group.rank() == root;
        const auto data = dataOf(group.rank(), count);
        std::vector<std::int32_t> all(mine ? count * ranks() : 0);
        COLLA_ASSERT_OK(gather(group, data, all, root));
        for (int rank = 0; mine && rank < ranks(); ++rank) {
          const std::vector<std::int32_t> part(all.begin() + rank * count,
                                               all.begin() + (rank + 1) * count);
          ASSERT_EQ(part, dataOf(rank, count));
        }
        std::vector<std::int32_t> back(count);
        COLLA_ASSERT_OK(scatter(group, all, back, root));
        ASSERT_EQ(back, data);
      }
    }
  });
}

TEST_P(CollectivesTest, BarrierWaitsForEverybody) {
  std::atomic<int> arrived{0};
  run([&](Group& group) {
    for (int round = 1; round <= 20; ++round) {
      arrived.fetch_add(1);
      COLLA_ASSERT_OK(barrier(group));
      ASSERT_GE(arrived.load(), round * ranks());
      COLLA_ASSERT_OK(barrier(group));
    }
  });
}

TEST_P(CollectivesTest, SendAndRecvKeepOrderPerTag) {
  if (ranks() < 2) return;
  run([&](Group& group) {
    for (const std::size_t count : {0, 1, 100'000}) {
      if (group.rank() == 0) {
        for (std::uint32_t i = 0; i < 3; ++i) COLLA_ASSERT_OK(send(group, dataOf(i, count), 1, 7));
      } else if (group.rank() == 1) {
        for (std::uint32_t i = 0; i < 3; ++i) {
          std::vector<std::int32_t> data(count);
          COLLA_ASSERT_OK(recv(group, data, 0, 7));
          ASSERT_EQ(data, dataOf(i, count));
        }
      }
    }
    std::vector<float> nothing;
    EXPECT_EQ(send(group, nothing, group.rank()).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(send(group, nothing, ranks()).code(), StatusCode::kInvalidArgument);
  });
}

TEST_P(CollectivesTest, EveryTypeAndReduction) {
  run([&](Group& group) {
    const auto check = [&]<typename T>(T) {
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
        const auto value = [](int rank, std::size_t i) {
          return static_cast<T>((i + static_cast<std::size_t>(rank)) % 3 + 1);
        };
        std::vector<T> data(777);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(group.rank(), i);
        COLLA_ASSERT_OK(allreduce(group, data, {.op = op}));
        for (std::size_t i = 0; i < data.size(); ++i) {
          T expected = value(0, i);
          for (int rank = 1; rank < ranks(); ++rank) {
            const T next = value(rank, i);
            if (op == ReduceOp::kSum) expected = static_cast<T>(expected + next);
            if (op == ReduceOp::kProduct) expected = static_cast<T>(expected * next);
            if (op == ReduceOp::kMin) expected = std::min(expected, next);
            if (op == ReduceOp::kMax) expected = std::max(expected, next);
          }
          ASSERT_EQ(data[i], expected) << toString(dataTypeOf<T>()) << " " << toString(op);
        }
      }
    };
    check(float{});
    check(double{});
    check(std::int8_t{});
    check(std::int16_t{});
    check(std::int32_t{});
    check(std::int64_t{});
    check(std::uint8_t{});
  });
}

// An error on every rank that tells who called what; afterwards the group is broken.
TEST_P(CollectivesTest, DifferentSizesAreAnErrorOnEveryRank) {
  if (ranks() < 2) return;
  run([&](Group& group) {
    meetOutside();
    std::vector<float> data(group.rank() == 1 ? 3000 : 2000);
    const Status status = allreduce(group, data);
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 1 called allreduce of 3000 float32"),
                      HasSubstr("called allreduce of 2000 float32")));
    EXPECT_EQ(barrier(group).code(), StatusCode::kGroupBroken);
  });
}

TEST_P(CollectivesTest, DifferentOperationsAreAnErrorOnEveryRank) {
  if (ranks() < 2) return;
  run([&](Group& group) {
    meetOutside();
    std::vector<float> data(2000);
    const Status status = group.rank() == 0 ? broadcast(group, data, 0) : allreduce(group, data);
    // A broadcast's root may be through before it is told: then the next call tells.
    const Status told = status.ok() ? barrier(group) : status;
    EXPECT_FALSE(told.ok());
    EXPECT_THAT(std::string(told.message()), AllOf(HasSubstr("broadcast of 2000 float32, root 0"),
                                                   HasSubstr("allreduce of 2000 float32, sum")));
  });
}

TEST_P(CollectivesTest, DifferentTypesAreAnErrorOnEveryRank) {
  if (ranks() < 2) return;
  run([&](Group& group) {
    meetOutside();
    std::vector<float> floats(10);
    std::vector<std::int32_t> ints(10);
    const Status status = group.rank() == 0 ? allreduce(group, floats) : allreduce(group, ints);
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
  });
}

// What all ranks refuse alike costs nothing; what one refuses is told to the others at once.
TEST_P(CollectivesTest, RefusedArgumentsDoNotHangTheOthers) {
  run([&](Group& group) {
    std::vector<std::int32_t> data(10, 1);
    const Status average = allreduce(group, data, {.op = ReduceOp::kAverage});
    EXPECT_EQ(average.code(), StatusCode::kInvalidArgument) << average;
    EXPECT_EQ(broadcast(group, data, ranks()).code(), StatusCode::kInvalidArgument);
    COLLA_ASSERT_OK(allreduce(group, data));
    EXPECT_EQ(data[0], ranks());
    if (ranks() == 1) return;

    meetOutside();
    std::vector<std::int32_t> result(group.rank() == 0 ? 9 : 10 * ranks());
    const auto start = std::chrono::steady_clock::now();
    const Status status = allgather(group, data, result);
    EXPECT_EQ(status.code(),
              group.rank() == 0 ? StatusCode::kInvalidArgument : StatusCode::kMismatch)
        << status;
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  });
}

// A refused call is an operation like any other: what comes before and after it is not disturbed.
TEST_P(CollectivesTest, RefusedCallsBetweenOthersChangeNothing) {
  run([&](Group& group) {
    std::vector<std::int32_t> data(64);
    for (int round = 0; round < 300; ++round) {
      std::fill(data.begin(), data.end(), round + group.rank());
      COLLA_ASSERT_OK(allreduce(group, data));
      ASSERT_EQ(data[0], round * ranks() + ranks() * (ranks() - 1) / 2);
      ASSERT_EQ(allreduce(group, data, {.op = ReduceOp::kAverage}).code(),
                StatusCode::kInvalidArgument);
    }
  });
}

// What every rank must give alike, beside the sizes, is compared too.
TEST_P(CollectivesTest, DifferentCountsAreAnErrorOnEveryRank) {
  if (ranks() < 2) return;
  run([&](Group& group) {
    std::vector<std::size_t> counts(ranks(), 10);
    counts[group.rank() == 0 ? 1 : 0] = 20;  // The same in all; everybody's own part fits.
    std::vector<float> data(counts[group.rank()]), result(10 * ranks() + 10);
    meetOutside();
    const Status status = allgatherv(group, data, result, counts);
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
  });
}

TEST_P(CollectivesTest, DifferentSliceMapsAreAnErrorOnEveryRank) {
  if (ranks() < 2) return;
  run([&](Group& group) {
    std::vector<int> first(ranks() + 1);
    for (int i = 0; i <= ranks(); ++i) first[i] = 2 * i;
    if (group.rank() == 0) first[1] = 1;
    const auto map = SliceMap::of(first);
    std::vector<float> data(100);
    const std::vector<ConstBuffer> partials(map->subtrees(group.rank()).size(), data);
    meetOutside();
    const Status status = allreduce(group, *map, partials, data);
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("slices or counts #"));
  });
}

// An algorithm by name takes messages even where memory is shared: calls are compared all the same.
TEST_P(CollectivesTest, NamedAlgorithmsNoticeOtherCalls) {
  if (ranks() < 2) return;
  run([&](Group& group) {
    std::vector<float> data(5000, 1);
    for (const Algorithm algorithm : {Algorithm::kDirect, Algorithm::kFlat, Algorithm::kTree}) {
      COLLA_ASSERT_OK(allreduce(group, data, {.algorithm = algorithm}));
    }
    meetOutside();
    const Status status = group.rank() == 0
                              ? barrier(group)
                              : allreduce(group, data, {.algorithm = Algorithm::kDirect});
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
  });
}

// Empty buffers with and without an address are the same to everybody.
TEST_P(CollectivesTest, EmptyBuffersMayHaveAnAddressOrNot) {
  run([&](Group& group) {
    std::vector<float> none, reserved;
    reserved.reserve(100);
    std::vector<float>& data = group.rank() % 2 == 0 ? none : reserved;
    COLLA_ASSERT_OK(allreduce(group, data));
    COLLA_ASSERT_OK(broadcast(group, data, 0));
    COLLA_ASSERT_OK(allgather(group, data, data));
    COLLA_ASSERT_OK(alltoall(group, data, data));
    COLLA_ASSERT_OK(gather(group, data, data, 0));
    COLLA_ASSERT_OK(scatter(group, data, data, 0));
    COLLA_ASSERT_OK(reduce(group, data, data, 0));
    COLLA_ASSERT_OK(reduceScatter(group, data, data));
  });
}

// "For ever" is a time like any other.
TEST_P(CollectivesTest, TheLongestTimeoutIsNoTimeout) {
  run([&](Group& group) { COLLA_ASSERT_OK(barrier(group, {std::chrono::milliseconds::max()})); });
}

TEST_P(CollectivesTest, AsynchronousOperationsKeepTheirOrder) {
  run([&](Group& group) {
    constexpr int kCount = 8;
    std::vector<std::vector<std::int32_t>> buffers;
    for (int i = 0; i < kCount; ++i) buffers.push_back(dataOf(group.rank() + i, 5000));
    std::vector<Handle> handles;
    for (auto& buffer : buffers) {
      handles.push_back(group.async([&](Group& g) { return allreduce(g, buffer); }));
    }
    std::vector<std::int32_t> after(10, 1);
    COLLA_ASSERT_OK(allreduce(group, after));  // Waits for its turn.
    for (const Handle& handle : handles) EXPECT_TRUE(handle.done());
    for (int i = 0; i < kCount; ++i) {
      COLLA_ASSERT_OK(handles[i].wait());
      std::vector<std::int32_t> expected(5000, 0);
      for (int rank = 0; rank < ranks(); ++rank) {
        for (std::size_t k = 0; k < expected.size(); ++k) expected[k] += valueAt(rank + i, k);
      }
      ASSERT_EQ(buffers[i], expected);
    }
  });
}

TEST_P(CollectivesTest, SubgroupsAreIndependent) {
  if (ranks() < 3) return;
  run([&](Group& group) {
    // Overlapping groups, started in opposite orders: {0, 1, 2} and the reverse of {2, …, n-1}.
    std::vector<int> low = {0, 1, 2}, high;
    for (int rank = ranks() - 1; rank >= 2; --rank) high.push_back(rank);
    const bool inLow = group.rank() <= 2, inHigh = group.rank() >= 2;
    std::unique_ptr<Group> a, b;
    if (inLow) {
      auto made = group.subgroup(low);
      ASSERT_TRUE(made.ok()) << made.status();
      a = *std::move(made);
    }
    if (inHigh) {
      auto made = group.subgroup(high);
      ASSERT_TRUE(made.ok()) << made.status();
      b = *std::move(made);
      EXPECT_EQ(b->rank(), ranks() - 1 - group.rank());
    }
    std::vector<std::int32_t> one(3000, 1), two(3000, 1);
    std::vector<Handle> handles;
    if (inHigh) handles.push_back(b->async([&](Group& g) { return allreduce(g, two); }));
    if (inLow) handles.push_back(a->async([&](Group& g) { return allreduce(g, one); }));
    for (const Handle& handle : handles) COLLA_ASSERT_OK(handle.wait());
    EXPECT_EQ(one[0], inLow ? 3 : 1);
    EXPECT_EQ(two[0], inHigh ? ranks() - 2 : 1);

    EXPECT_FALSE(group.subgroup(std::vector<int>{0, 0}).ok());
    EXPECT_FALSE(group.subgroup(std::vector<int>{ranks()}).ok());
    EXPECT_FALSE(group.subgroup(std::vector<int>{(group.rank() + 1) % ranks()}).ok());
  });
}

// A rank that does not come: the others' error names it, at the deadline.
TEST_P(CollectivesTest, DeadlineNamesTheMissingRank) {
  if (ranks() < 2) return;
  std::atomic<int> waiting{ranks() - 1};
  run([&](Group& group) {
    if (group.rank() == 1) {
      while (waiting.load() > 0) std::this_thread::yield();
      return;
    }
    std::vector<float> data(100'000);
    const Status status = allreduce(group, data, {.timeout = 300ms});
    EXPECT_EQ(status.code(), StatusCode::kTimeout) << status;
    EXPECT_EQ(status.peer(), 1) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
    waiting.fetch_sub(1);
  });
}

std::string nameOf(const ::testing::TestParamInfo<std::tuple<Wire, int>>& info) {
  return test::toString(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Shared, CollectivesTest,
                         ::testing::Combine(::testing::Values(Wire::kShared, Wire::kShm),
                                            ::testing::Values(1, 2, 3, 4)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Messages, CollectivesTest,
                         ::testing::Combine(::testing::Values(Wire::kMessages),
                                            ::testing::Values(1, 2, 3, 4, 9)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Tcp, CollectivesTest,
                         ::testing::Combine(::testing::Values(Wire::kTcpPlain, Wire::kTcp),
                                            ::testing::Values(2, 3)),
                         nameOf);

}  // namespace
}  // namespace colla
