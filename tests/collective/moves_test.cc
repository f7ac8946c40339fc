// Collectives that only move bytes, and messages, on every wire.
#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <vector>

#include "collective/collectives_fixture.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
using test::CollectivesTest;
using test::dataOf;
using test::kLengths;
using test::Wire;
using ::testing::HasSubstr;
using ::testing::Not;

class MessagesTest : public CollectivesTest {};

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

TEST_P(MessagesTest, SendAndRecvKeepOrderPerTag) {
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

// Whoever gave up and calls again means the same message as before.
TEST_P(MessagesTest, AMessageThatTimedOutCanBeRepeated) {
  run([&](Group& group) {
    for (const std::size_t count : {1, 100'000}) {
      std::vector<std::int32_t> data(count);
      for (const int late : {0, 1}) {
        const auto move = [&](int i, std::chrono::milliseconds timeout = 20s) {
          if (group.rank() == 0) return send(group, dataOf(i, count), 1, 7, {timeout});
          if (group.rank() == 1) return recv(group, data, 0, 7, {timeout});
          return Status();
        };
        // A small message is sent whether anybody waits for it or not.
        if (group.rank() == 1 - late && (late == 0 || count > 1)) {
          const Status status = move(1, 50ms);
          EXPECT_EQ(status.code(), StatusCode::kTimeout) << status;
          EXPECT_THAT(std::string(status.message()), Not(HasSubstr("lost")));
        }
        meetOutside();
        for (const int i : {2, 3}) {
          COLLA_ASSERT_OK(move(i));
          if (group.rank() == 1) {
            ASSERT_EQ(data, dataOf(i, count));
          }
        }
        meetOutside();
      }
    }
  });
}

// A large message that came while its receiver did something else had nowhere to go.
TEST_P(MessagesTest, AMessageThatWasLostIsMissedOnce) {
  run([&](Group& group) {
    std::vector<std::int32_t> data(100'000), small(1);
    if (group.rank() == 1) {
      EXPECT_EQ(recv(group, data, 0, 7, {50ms}).code(), StatusCode::kTimeout);
    }
    meetOutside();
    if (group.rank() == 0) {
      for (const int i : {1, 2}) {
        COLLA_ASSERT_OK(send(group, dataOf(i, data.size()), 1, 7));
        COLLA_ASSERT_OK(send(group, small, 1, 8));
      }
    } else if (group.rank() == 1) {
      COLLA_ASSERT_OK(recv(group, small, 0, 8));
      const Status status = recv(group, data, 0, 7);
      EXPECT_EQ(status.code(), StatusCode::kCancelled) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("receive from rank 0: a message of 400000 bytes from rank 0 came when "
                            "nobody waited for it any more: it is lost"));
      COLLA_ASSERT_OK(recv(group, data, 0, 7));
      EXPECT_EQ(data, dataOf(2, data.size()));
    }
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

INSTANTIATE_TEST_SUITE_P(Wires, MessagesTest,
                         ::testing::Combine(::testing::Values(Wire::kShared, Wire::kMessages,
                                                              Wire::kShm, Wire::kTcpPlain,
                                                              Wire::kTcp, Wire::kUcx, Wire::kLevels),
                                            ::testing::Values(3)),
                         test::caseName);

}  // namespace
}  // namespace colla
