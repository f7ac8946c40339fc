// Joins, process sets, stalls and the end of an exchange; ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "named/crew.h"
#include "named/exchange.h"
#include "support/scratch.h"

namespace colla::named {
namespace {

using namespace std::chrono_literals;
using test::allreduce;
using test::barrier;
using test::Crew;
using test::joinAndWait;
using test::noise;
using test::submit;
using test::Ticket;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ExchangeLifeTest, JoinBringsZerosUntilAllHaveJoined) {
  Crew crew(3);
  for (int first = 0; first < 3; ++first) {
    std::vector<int> last(3);
    crew.each([&](int rank) {
      if (rank != first) {
        for (int step = 0; step < 3; ++step) {
          const Ticket sum = submit<std::int64_t>(crew[rank], allreduce("sum", 2), {1, rank});
          const Ticket average =
              submit<float>(crew[rank], allreduce("average", 1, Op::kAverage), {3});
          EXPECT_TRUE(sum.wait().ok()) << sum.wait();
          EXPECT_THAT(sum.as<std::int64_t>(), ElementsAre(2, 3 - first));
          EXPECT_TRUE(average.wait().ok());
          EXPECT_THAT(average.as<float>(), ElementsAre(2));  // By all three.
        }
        Request request{.name = "gather", .kind = Kind::kAllgather};
        request.shape = {1};
        EXPECT_EQ(submit<float>(crew[rank], std::move(request), {1}).wait().code(),
                  StatusCode::kUnsupported);
        EXPECT_TRUE(barrier(crew[rank], "barrier").wait().ok());
      }
      last[rank] = joinAndWait(crew[rank]);
      const Ticket after = submit<float>(crew[rank], allreduce("after", 1), {1});
      EXPECT_TRUE(after.wait().ok()) << after.wait();
      EXPECT_THAT(after.as<float>(), ElementsAre(3));
    });
    EXPECT_THAT(last, Each(last.front()));
    EXPECT_NE(last.front(), first);
  }
}

TEST(ExchangeLifeTest, NothingIsSubmittedAfterAJoin) {
  Crew crew(2);
  const auto [unused, ticket] = Ticket::of<float>({}, {});
  ASSERT_TRUE(crew[0].join([done = unused.done](const Status& s, int) { done(s, {}); }).ok());
  auto [request, never] = Ticket::of<float>(allreduce("w", 1), {1});
  EXPECT_THAT(toString(crew[0].submit(std::move(request))), HasSubstr("this rank has joined"));
  EXPECT_EQ(joinAndWait(crew[1]), 1);
  EXPECT_TRUE(ticket.wait().ok());
}

TEST(ExchangeLifeTest, ProcessSetsAreMadeAndRemoved) {
  Crew crew(4);
  crew.each([&](int rank) {
    EXPECT_THAT(crew[rank].sets(), SizeIs(1));
    const auto even = crew[rank].addSet({2, 0});
    const auto odd = crew[rank].addSet({1, 3});
    ASSERT_TRUE(even.ok() && odd.ok()) << even.status() << odd.status();
    EXPECT_THAT(crew[rank].sets().at(*even), ElementsAre(0, 2));
    EXPECT_THAT(crew[rank].sets().at(*odd), ElementsAre(1, 3));
    const int mine = rank % 2 == 0 ? *even : *odd;
    const int other = rank % 2 == 0 ? *odd : *even;

    // The same name in both, and in all.
    Request request = allreduce("w", 1);
    request.set = mine;
    const Ticket inSet = submit<float>(crew[rank], std::move(request), {1.0f * rank});
    const Ticket inWorld = submit<float>(crew[rank], allreduce("w", 1), {1});
    EXPECT_TRUE(inSet.wait().ok()) << inSet.wait();
    EXPECT_THAT(inSet.as<float>(), ElementsAre(rank % 2 == 0 ? 2 : 4));
    EXPECT_TRUE(inWorld.wait().ok());
    EXPECT_THAT(inWorld.as<float>(), ElementsAre(4));
    // Roots are ranks of the job.
    request = {.name = "b", .kind = Kind::kBroadcast, .set = mine};
    request.shape = {1};
    request.root = rank % 2 == 0 ? 2 : 3;
    const Ticket broadcast = submit<float>(crew[rank], std::move(request), {1.0f * rank});
    EXPECT_TRUE(broadcast.wait().ok()) << broadcast.wait();
    EXPECT_THAT(broadcast.as<float>(), ElementsAre(rank % 2 == 0 ? 2 : 3));

    auto [foreign, never] = Ticket::of<float>(allreduce("x", 1), {1});
    foreign.set = other;
    EXPECT_THAT(toString(crew[rank].submit(std::move(foreign))), HasSubstr("is not a member"));
    EXPECT_THAT(toString(crew[rank].addSet({3, 1}).status()), HasSubstr("already"));
    EXPECT_THAT(toString(crew[rank].addSet({rank}).status()), HasSubstr("different ranks"));
    EXPECT_THAT(toString(crew[rank].addSet({9}).status()), HasSubstr("ranks 0 to 3"));

    // What waits in a set ends with it.
    Ticket waiting;
    if (rank == 0) waiting = barrier(crew[rank], "waits", *even);
    EXPECT_TRUE(crew[rank].removeSet(*even).ok());
    if (rank == 0) {
      EXPECT_EQ(waiting.wait().code(), StatusCode::kCancelled);
    }
    EXPECT_EQ(crew[rank].removeSet(*even).code(), StatusCode::kNotFound);
    EXPECT_EQ(crew[rank].removeSet(0).code(), StatusCode::kInvalidArgument);
    const auto again = crew[rank].addSet({0, 2});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_NE(*again, *even);
  });
}

TEST(ExchangeLifeTest, StallsAreReportedAndEndTheExchange) {
  std::mutex mutex;
  std::string reports;
  Options options{.stallWarning = 50ms, .stallShutdown = 300ms};
  options.report = [&](const std::string& report) {
    const std::lock_guard lock(mutex);
    reports += report;
  };
  Crew crew(3, options);
  const Ticket zero = submit<float>(crew[0], allreduce("late", 1), {1});
  const Ticket two = submit<float>(crew[2], allreduce("late", 1), {1});
  for (const Ticket& ticket : {zero, two}) {
    const Status status = ticket.wait();
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("\"late\""), HasSubstr("missing on rank 1")));
  }
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(reports, AllOf(HasSubstr("\"late\", allreduce: ready on ranks 0, 2"),
                               HasSubstr("missing on rank 1"), HasSubstr("rank 1 on host")));
  }
  // Rank 1 gets to know when it tries.
  auto [request, ticket] = Ticket::of<float>(allreduce("late", 1), {1});
  if (crew[1].submit(std::move(request)).ok()) {
    EXPECT_EQ(ticket.wait().code(), StatusCode::kTimeout);
  }
}

TEST(ExchangeLifeTest, AShutDownIsToldToThoseWhoWait) {
  for (const int leaver : {0, 1}) {
    Crew crew(3);
    const Ticket own = submit<float>(crew[leaver], allreduce("own", 1), {1});
    const Ticket others = submit<float>(crew[2], allreduce("others'", 1), {1});
    crew.destroy(leaver);
    EXPECT_EQ(own.wait().code(), StatusCode::kCancelled);
    EXPECT_THAT(std::string(own.wait().message()), HasSubstr("the exchange was shut down"));
    const Status status = others.wait();
    EXPECT_EQ(status.code(), StatusCode::kCancelled);
    EXPECT_EQ(status.peer(), leaver);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank " + std::to_string(leaver)),
                                                     HasSubstr("has shut down its exchange")));
    auto [request, never] = Ticket::of<float>(allreduce("later", 1), {1});
    EXPECT_EQ(crew[2].submit(std::move(request)).code(), StatusCode::kCancelled);
    EXPECT_EQ(crew[2].status().code(), StatusCode::kCancelled);
    EXPECT_EQ(crew[2].addSet({0}).status().code(), StatusCode::kCancelled);
    EXPECT_EQ(others.times(), 1);
  }
}

// Ranks end at their own pace: what all of them have started is finished first.
TEST(ExchangeLifeTest, LeavingSpoilsNothingThatIsUnderWay) {
  for (int round = 0; round < 20; ++round) {
    Crew crew(3);
    crew.each([&](int rank) {
      const Ticket ticket = submit(crew[rank], allreduce("last", 20000), noise(rank, 20000));
      EXPECT_TRUE(ticket.wait().ok()) << ticket.wait();
      crew.destroy(rank);
    });
  }
}

// A coordinator that does something else holds nobody up for long.
TEST(ExchangeLifeTest, LeavingDoesNotWaitForever) {
  Crew crew(2);
  std::promise<void> gone;
  auto [request, ticket] = Ticket::of<float>(allreduce("w", 1), {1});
  request.done = [done = request.done, left = gone.get_future().share()](const Status& status,
                                                                         auto received) {
    left.wait();
    done(status, received);
  };
  ASSERT_TRUE(crew[0].submit(std::move(request)).ok());
  EXPECT_TRUE(submit<float>(crew[1], allreduce("w", 1), {1}).wait().ok());
  const auto before = std::chrono::steady_clock::now();
  crew.destroy(1);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
  gone.set_value();
  EXPECT_TRUE(ticket.wait().ok());
}

TEST(ExchangeLifeTest, CallbacksMaySubmit) {
  Crew crew(2);
  crew.each([&](int rank) {
    auto [last, end] = Ticket::of<float>(allreduce("second", 1), {2});
    const auto second = std::make_shared<Request>(std::move(last));
    auto [first, unused] = Ticket::of<float>(allreduce("first", 1), {1});
    first.done = [&crew, rank, second](const Status&, auto) {
      EXPECT_TRUE(crew[rank].submit(std::move(*second)).ok());
    };
    ASSERT_TRUE(crew[rank].submit(std::move(first)).ok());
    EXPECT_TRUE(end.wait().ok());
    EXPECT_THAT(end.as<float>(), ElementsAre(4));
  });
}

TEST(ExchangeLifeTest, ACycleGathersCompany) {
  Crew crew(2, {.cycle = 20ms});
  crew.each([&](int rank) {
    const Ticket one = submit<float>(crew[rank], allreduce("one", 1), {1});
    const Ticket two = submit<float>(crew[rank], allreduce("two", 1), {2});
    EXPECT_TRUE(one.wait().ok());
    EXPECT_TRUE(two.wait().ok());
    EXPECT_THAT(two.as<float>(), ElementsAre(4));
  });
}

TEST(ExchangeLifeTest, TwoExchangesOfAJobDoNotMix) {
  auto jobs = *Job::inThreads(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto one = *NamedExchange::create(*jobs[rank]);
      auto two = *NamedExchange::create(*jobs[rank]);
      const Ticket first = submit<float>(*one, allreduce("w", 1), {1});
      const Ticket second = submit<float>(*two, allreduce("w", 1), {10});
      EXPECT_TRUE(first.wait().ok());
      EXPECT_TRUE(second.wait().ok());
      EXPECT_THAT(first.as<float>(), ElementsAre(2));
      EXPECT_THAT(second.as<float>(), ElementsAre(20));
      one.reset();
      auto three = *NamedExchange::create(*jobs[rank]);
      EXPECT_TRUE(submit<float>(*three, allreduce("w", 1), {1}).wait().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ExchangeLifeTest, TimelineTellsWhatHappened) {
  const Scratch scratch;
  const std::string path = scratch.at("timeline.json");
  Crew crew(2);
  crew.each([&](int rank) {
    EXPECT_TRUE(crew[rank].startTimeline(path, true).ok());
    EXPECT_TRUE(barrier(crew[rank], "started").wait().ok());
    EXPECT_TRUE(submit<float>(crew[rank], allreduce("layer \"1\"", 3), {1, 2, 3}).wait().ok());
    EXPECT_TRUE(barrier(crew[rank], "stops").wait().ok());
    EXPECT_TRUE(crew[rank].stopTimeline().ok());
    EXPECT_TRUE(crew[rank].stopTimeline().ok());
  });
  std::ifstream file(path);
  const auto events = nlohmann::json::parse(file);
  int track = -1;
  for (const auto& event : events) {
    if (event.value("name", "") == "process_name" && event["args"]["name"] == "layer \"1\"") {
      track = event["pid"];
    }
  }
  std::vector<std::string> seen;
  bool cycle = false;
  for (const auto& event : events) {
    cycle |= event.value("name", "") == "CYCLE_START";
    if (event["pid"] != track || event["ph"] == "M" || event["ph"] == "X") continue;
    seen.push_back(std::string(event["ph"]) + " " + event.value("name", ""));
  }
  EXPECT_THAT(seen, ElementsAre("B NEGOTIATE_ALLREDUCE", "E ", "B ALLREDUCE", "E "));
  EXPECT_TRUE(cycle);
  EXPECT_THAT(toString(crew[0].startTimeline("/nowhere/timeline.json", false)),
              HasSubstr("can't write the timeline to /nowhere/timeline.json"));
}

}  // namespace
}  // namespace colla::named
