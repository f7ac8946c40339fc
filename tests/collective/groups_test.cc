// What holds for all collectives of a group: mismatches, deadlines, asynchronous use, subgroups.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "collective/collectives_fixture.h"
#include "collective/group_core.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
using test::dataOf;
using test::valueAt;
using test::Wire;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GroupsTest : public test::CollectivesTest {};
class RefusalsTest : public test::CollectivesTest {};

// An error on every rank that tells who called what; afterwards the group is broken.
TEST_P(RefusalsTest, DifferentSizesAreAnErrorOnEveryRank) {
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

TEST_P(RefusalsTest, DifferentOperationsAreAnErrorOnEveryRank) {
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

TEST_P(RefusalsTest, DifferentTypesAreAnErrorOnEveryRank) {
  run([&](Group& group) {
    meetOutside();
    std::vector<float> floats(10);
    std::vector<std::int32_t> ints(10);
    const Status status = group.rank() == 0 ? allreduce(group, floats) : allreduce(group, ints);
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
  });
}

// What all ranks refuse alike costs nothing; what one refuses is told to the others at once.
TEST_P(RefusalsTest, RefusedArgumentsDoNotHangTheOthers) {
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
TEST_P(RefusalsTest, RefusedCallsBetweenOthersChangeNothing) {
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
TEST_P(RefusalsTest, DifferentCountsAreAnErrorOnEveryRank) {
  run([&](Group& group) {
    std::vector<std::size_t> counts(ranks(), 10);
    counts[group.rank() == 0 ? 1 : 0] = 20;  // The same in all; everybody's own part fits.
    std::vector<float> data(counts[group.rank()]), result(10 * ranks() + 10);
    meetOutside();
    const Status status = allgatherv(group, data, result, counts);
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
  });
}

// Also on those that send and expect what they should.
TEST_P(RefusalsTest, AlltoallvThatDoesNotFitIsAnErrorOnEveryRank) {
  for (const std::size_t count : {10, 50'000}) {  // Small and large messages.
    run([&](Group& group) {
      std::vector<std::size_t> sends(ranks(), count), recvs(ranks(), count);
      if (group.rank() == 0) sends[1] = count + 2;
      std::vector<float> data(count * ranks() + (group.rank() == 0 ? 2 : 0));
      std::vector<float> result(count * ranks());
      meetOutside();
      const Status status = alltoallv(group, data, sends, result, recvs);
      EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("alltoallv of float32: rank 0 sends " + std::to_string(4 * count + 8) +
                            " bytes to rank 1, which expects " + std::to_string(4 * count)));
      EXPECT_EQ(barrier(group).code(), StatusCode::kGroupBroken);
    });
  }
}

TEST_P(RefusalsTest, AlltoallvThatDoesNotFitItselfIsRefused) {
  run([&](Group& group) {
    std::vector<std::size_t> sends(ranks(), 3), recvs(ranks(), 3);
    if (group.rank() == 0) sends[0] = 4;
    std::vector<float> data(3 * ranks() + (group.rank() == 0 ? 1 : 0)), result(3 * ranks());
    meetOutside();
    const Status status = alltoallv(group, data, sends, result, recvs);
    EXPECT_EQ(status.code(),
              group.rank() == 0 ? StatusCode::kInvalidArgument : StatusCode::kMismatch)
        << status;
    if (group.rank() == 0) {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("sends itself 4 elements, but expects 3"));
    }
  });
}

TEST_P(RefusalsTest, DifferentSliceMapsAreAnErrorOnEveryRank) {
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
TEST_P(GroupsTest, NamedAlgorithmsNoticeOtherCalls) {
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

// "For ever" is a time like any other.
TEST_P(GroupsTest, TheLongestTimeoutIsNoTimeout) {
  run([&](Group& group) { COLLA_ASSERT_OK(barrier(group, {std::chrono::milliseconds::max()})); });
}

TEST_P(GroupsTest, AsynchronousOperationsKeepTheirOrder) {
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

TEST_P(GroupsTest, SubgroupsAreIndependent) {
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

// What one group waits for does not hold up another with the same members.
TEST_P(GroupsTest, TwoGroupsAreUnderWayAtOnce) {
  run([&](Group& group) {
    std::vector<int> all(ranks());
    std::iota(all.begin(), all.end(), 0);
    const auto other = group.subgroup(all);
    ASSERT_TRUE(other.ok()) << other.status();
    for (const std::size_t count : {100, 300'001}) {
      auto one = dataOf(group.rank(), count);
      auto two = dataOf(group.rank(), count, 5);
      const auto start = [&] { return group.async([&](Group& g) { return allreduce(g, one); }); };
      std::optional<Handle> first;
      if (group.rank() != 0) first = start();
      COLLA_ASSERT_OK(allreduce(**other, two));
      if (first) {
        EXPECT_FALSE(first->done());  // Rank 0 has yet to come.
      }
      meetOutside();
      if (group.rank() == 0) first = start();
      COLLA_ASSERT_OK(first->wait());
      EXPECT_EQ(one, test::sumOf(ranks(), count));
      EXPECT_EQ(two, test::sumOf(ranks(), count, 5));
    }
  });
}

// Numbers of subgroups are hashes, so two may have the same one: their messages must not mix.
TEST_P(GroupsTest, OfTwoGroupsWithOneNumberTheSecondIsRefused) {
  run([&](Group& group) {
    GroupCore::Options options = group.core().options();
    const auto refused = GroupCore::create(options, Deadline::after(20s));
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported) << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another one that is in use"));
    std::vector<std::int32_t> data(10, 1);
    COLLA_ASSERT_OK(allreduce(group, data));
    EXPECT_EQ(data[0], ranks());

    // Who has given it up leaves it to the next.
    options.id = 2;
    for (int round = 0; round < 2; ++round) {
      const auto core = GroupCore::create(options, Deadline::after(20s));
      ASSERT_TRUE(core.ok()) << core.status();
      meetOutside();
    }
  });
}

// A rank that does not come: the others' error names it, at the deadline.
TEST_P(GroupsTest, DeadlineNamesTheMissingRank) {
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

// A call that has to wait for its turn keeps its own limit: what is ahead of it may take longer.
TEST_P(GroupsTest, DeadlineCountsTheWaitForTheTurn) {
  run([&](Group& group) {
    if (group.rank() == 0) {
      std::vector<float> data(100), more(100);
      const Handle first = group.async([&](Group& g) { return allreduce(g, data); });
      const Handle second = group.async([&](Group& g) { return allreduce(g, more); });
      const auto start = std::chrono::steady_clock::now();
      const Status status = barrier(group, {200ms});
      EXPECT_EQ(status.code(), StatusCode::kTimeout) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("barrier did not get its turn in time"),
                        HasSubstr("allreduce of 100 float32, sum was still under way, and 1 ")));
      // It broke the group, for those ahead of it too.
      for (const Handle& handle : {first, second}) EXPECT_FALSE(handle.wait().ok());
      EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
    }
    meetOutside();
    EXPECT_FALSE(barrier(group).ok());
  });
}

// The last rank does not come, and the first one gives up from another thread.
TEST_P(GroupsTest, AbortEndsWhatIsUnderWayOnEveryRank) {
  run([&](Group& group) {
    meetOutside();
    const auto told = [&](const Status& status) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("enough of it"));
    };
    if (group.rank() == 0) {
      const Handle waits = group.async([](Group& g) { return barrier(g); });
      group.core().abort({StatusCode::kCancelled, "enough of it"});
      told(waits.wait());
    } else if (group.rank() < group.size() - 1) {
      told(barrier(group));
    }
    meetOutside();
    // The others may have come before they gave up: then the last one misses nobody yet.
    if (group.rank() == group.size() - 1) static_cast<void>(barrier(group));
    told(barrier(group));
  });
}

// Shared memory, messages among so many ranks that news has to spread, and messages over TLS.
INSTANTIATE_TEST_SUITE_P(Wires, GroupsTest,
                         ::testing::Values(std::tuple(Wire::kShm, 4),
                                           std::tuple(Wire::kMessages, 9),
                                           std::tuple(Wire::kLevels, 4),
                                           std::tuple(Wire::kScattered, 5),
                                           std::tuple(Wire::kTcp, 3)),
                         test::caseName);
// What is compared travels beside the data: on a board, or in messages, or on both levels.
INSTANTIATE_TEST_SUITE_P(Ways, RefusalsTest,
                         ::testing::Values(std::tuple(Wire::kShared, 4),
                                           std::tuple(Wire::kMessages, 9),
                                           std::tuple(Wire::kLevels, 4)),
                         test::caseName);

}  // namespace
}  // namespace colla
