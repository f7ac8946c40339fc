// What users of an exchange rely on; ranks are threads.
#include "named/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "colla/collectives.h"
#include "named/crew.h"

namespace colla::named {
namespace {

using test::allreduce;
using test::Crew;
using test::noise;
using test::submit;
using test::Ticket;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The canonical order of sums: fused or not, in whatever company, the bits are the same.
TEST(ExchangeTest, FusingChangesNoBit) {
  constexpr int kTensors = 40;
  const auto run = [&](int ranks, std::size_t fusionBytes) {
    std::vector<std::vector<std::vector<std::byte>>> results(ranks);
    Crew crew(ranks, {.fusionBytes = fusionBytes});
    crew.each([&](int rank) {
      std::vector<int> order(kTensors);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(rank + fusionBytes));
      std::map<int, Ticket> tickets;
      for (const int i : order) {
        const std::size_t count = 1 + i * i * 7;
        tickets[i] = submit(
            crew[rank], allreduce(std::to_string(i), count, i % 3 == 0 ? Op::kAverage : Op::kSum),
            noise(rank * 1000 + i, count));
      }
      for (auto& [i, ticket] : tickets) {
        EXPECT_TRUE(ticket.wait().ok()) << ticket.wait();
        results[rank].push_back(ticket.bytes());
      }
    });
    return results;
  };
  for (int ranks = 2; ranks <= 4; ++ranks) {
    const auto alone = run(ranks, 0);
    EXPECT_EQ(run(ranks, 64 << 20), alone);
    EXPECT_EQ(run(ranks, 3000), alone);
    EXPECT_THAT(alone, Each(alone.front()));
  }
}

TEST(ExchangeTest, SumsAreThoseOfTheCollectives) {
  auto jobs = *Job::inThreads(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto exchange = *NamedExchange::create(*jobs[rank]);
      std::vector<float> plain = noise(rank, 5000);
      const Ticket ticket = submit(*exchange, allreduce("w", 5000, Op::kAverage), plain);
      EXPECT_TRUE(ticket.wait().ok());
      EXPECT_TRUE(colla::allreduce(jobs[rank]->world(), plain, {.op = ReduceOp::kAverage}).ok());
      EXPECT_EQ(ticket.as<float>(), plain);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ExchangeTest, WorksInPlace) {
  Crew crew(2);
  crew.each([&](int rank) {
    for (const Kind kind : {Kind::kAllreduce, Kind::kBroadcast}) {
      std::vector<float> data = {1.0f + rank, 10};
      auto [request, ticket] = Ticket::of<float>({.name = "w", .kind = kind}, {});
      request.shape = {2};
      request.root = 1;
      request.input = std::as_bytes(std::span(data));
      request.output = [&](auto) -> Result<std::span<std::byte>> {
        return std::as_writable_bytes(std::span(data));
      };
      ASSERT_TRUE(crew[rank].submit(std::move(request)).ok());
      ASSERT_TRUE(ticket.wait().ok()) << ticket.wait();
      if (kind == Kind::kAllreduce) {
        EXPECT_THAT(data, ElementsAre(3, 20));
      } else {
        EXPECT_THAT(data, ElementsAre(2, 10));
      }
    }
  });
}

TEST(ExchangeTest, MismatchConcernsOneNameAlone) {
  Crew crew(3);
  crew.each([&](int rank) {
    for (int round = 0; round < 3; ++round) {
      const Ticket wrong =
          submit(crew[rank], allreduce("wrong", rank == 1 ? 3 : 2), noise(0, rank == 1 ? 3 : 2));
      const Ticket right = submit<float>(crew[rank], allreduce("right", 1), {1});
      const Status status = wrong.wait();
      EXPECT_EQ(status.code(), StatusCode::kMismatch);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("\"wrong\""), HasSubstr("[2] on ranks 0, 2"),
                        HasSubstr("[3] on rank 1")));
      EXPECT_TRUE(right.wait().ok());
      EXPECT_THAT(right.as<float>(), ElementsAre(3));
    }
  });
}

TEST(ExchangeTest, NamesAreUsedOnceAtATime) {
  Crew crew(2);
  const Ticket first = submit<float>(crew[0], allreduce("w", 1), {1});
  auto [again, unused] = Ticket::of<float>(allreduce("w", 1), {1});
  const Status status = crew[0].submit(std::move(again));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("duplicate name \"w\""));
  // A group is refused as a whole.
  std::vector<Request> group;
  for (const char* name : {"new", "w"}) {
    group.push_back(Ticket::of<float>(allreduce(name, 1), {1}).first);
  }
  EXPECT_THAT(toString(crew[0].submitGroup(std::move(group))), HasSubstr("duplicate name"));
  const Ticket other = submit<float>(crew[0], allreduce("new", 1), {5});

  EXPECT_TRUE(submit<float>(crew[1], allreduce("w", 1), {2}).wait().ok());
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(submit<float>(crew[1], allreduce("new", 1), {2}).wait().ok());
  EXPECT_TRUE(other.wait().ok());
  EXPECT_THAT(other.as<float>(), ElementsAre(7));
  EXPECT_EQ(unused.times(), 0);
}

TEST(ExchangeTest, RefusesAtOnceWhatItCanTell) {
  Crew crew(3);
  const auto refused = [&](auto change) {
    auto [request, ticket] = Ticket::of<float>(allreduce("w", 2), {1, 2});
    change(request);
    const Status status = crew[0].submit(std::move(request));
    EXPECT_FALSE(status.ok());
    return toString(status);
  };
  EXPECT_THAT(refused([](Request& r) { r.set = 7; }), HasSubstr("there is no process set 7"));
  EXPECT_THAT(refused([](Request& r) { r.shape = {3}; }),
              HasSubstr("has 12 bytes, but input has 8"));
  EXPECT_THAT(refused([](Request& r) { r.shape = {-2}; }), HasSubstr("[-2]"));
  EXPECT_THAT(refused([](Request& r) { r.op = Op::kAdasum; }), HasSubstr("members, not 3"));
  EXPECT_THAT(refused([](Request& r) {
                r.kind = Kind::kBroadcast;
                r.root = 3;
              }),
              HasSubstr("root 3 is not a member"));
  EXPECT_THAT(refused([](Request& r) { r.kind = Kind::kAlltoall; }), HasSubstr("evenly"));
  EXPECT_THAT(refused([](Request& r) {
                r.kind = Kind::kAlltoall;
                r.splits = {1, 1};
              }),
              HasSubstr("2 splits for 3 members"));
  EXPECT_THAT(refused([](Request& r) {
                r.kind = Kind::kAlltoall;
                r.splits = {1, 1, 1};
              }),
              HasSubstr("[1, 1, 1] of 2 rows"));
  EXPECT_THAT(refused([](Request& r) { r.name.clear(); }), HasSubstr("without a name"));
  EXPECT_THAT(refused([](Request& r) { r.kind = Kind::kJoin; }), HasSubstr("not for submit()"));
  EXPECT_THAT(refused([](Request& r) {
                r.type = DataType::kBool;
                r.shape = {8};
                r.op = Op::kAverage;
              }),
              HasSubstr("booleans"));
}

TEST(ExchangeTest, WithoutMemoryOneRankFailsAlone) {
  for (const Kind kind : {Kind::kAllreduce, Kind::kAllgather, Kind::kBroadcast, Kind::kAlltoall,
                          Kind::kReducescatter}) {
    Crew crew(2);
    crew.each([&](int rank) {
      for (int round = 0; round < 2; ++round) {
        auto [request, ticket] = Ticket::of<float>({.name = "w", .kind = kind}, {1, 2});
        request.shape = {2};
        if (rank == 1 && round == 0) {
          request.output = [](auto) -> Result<std::span<std::byte>> {
            return {StatusCode::kNoMemory, "none left"};
          };
        }
        ASSERT_TRUE(crew[rank].submit(std::move(request)).ok());
        if (rank == 1 && round == 0) {
          EXPECT_THAT(toString(ticket.wait()),
                      HasSubstr("no memory: memory for the result of \"w\": none left"));
        } else {
          EXPECT_TRUE(ticket.wait().ok()) << ticket.wait();
        }
      }
    });
  }
}

TEST(ExchangeTest, GroupsGoTogether) {
  Crew crew(3);
  crew.each([&](int rank) {
    const auto group = [&](std::vector<std::string> names) {
      std::shuffle(names.begin() + 1, names.end(), std::mt19937(rank));
      std::vector<Request> requests;
      std::vector<Ticket> tickets;
      for (const std::string& name : names) {
        auto [request, ticket] = Ticket::of<float>(allreduce(name, 3), {1, 2, 3.0f * rank});
        requests.push_back(std::move(request));
        tickets.push_back(ticket);
      }
      EXPECT_TRUE(crew[rank].submitGroup(std::move(requests)).ok());
      return tickets;
    };
    for (int round = 0; round < 5; ++round) {
      const auto one = group({"a", "b", "c", "d"});
      const auto two = group({"e", "f"});
      for (const auto& tickets : {one, two}) {
        for (const Ticket& ticket : tickets) {
          EXPECT_TRUE(ticket.wait().ok()) << ticket.wait();
          EXPECT_THAT(ticket.as<float>(), ElementsAre(3, 6, 9));
        }
      }
    }
  });
}

TEST(ExchangeTest, AdasumFollowsItsTree) {
  for (const int ranks : {1, 2, 4}) {
    Crew crew(ranks);
    crew.each([&](int rank) {
      // Orthogonal vectors are added, equal ones averaged.
      std::vector<double> own(8, 0.0);
      own[rank] = rank + 1;
      Request request = allreduce("w", 8, Op::kAdasum);
      const Ticket orthogonal = submit(crew[rank], std::move(request), own);
      EXPECT_TRUE(orthogonal.wait().ok()) << orthogonal.wait();
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(orthogonal.as<double>()[i], i < ranks ? i + 1 : 0);
      }
      request = allreduce("w", 2, Op::kAdasum);
      request.prescale = 2;
      request.postscale = 3;
      const Ticket equal = submit<float>(crew[rank], std::move(request), {1, 2});
      EXPECT_TRUE(equal.wait().ok()) << equal.wait();
      EXPECT_THAT(equal.as<float>(), ElementsAre(6, 12));
    });
  }
}

}  // namespace
}  // namespace colla::named
