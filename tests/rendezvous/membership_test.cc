#include "rendezvous/membership.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "rendezvous/host_key.h"
#include "store_fixture.h"
#include "support/network.h"

namespace colla::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Role kWorker = Role::kWorker;
constexpr Role kServer = Role::kServer;

Member member(Role role, int rank, const std::string& host) {
  return {role, rank, host, "key of " + host, 100 + rank, {{"tcp", host + ":1"}}};
}

class JoinReportTest : public ::testing::Test {
 protected:
  std::string at(std::chrono::seconds now) {
    const TimePoint time = TimePoint() + now;
    const JoinNews news = joinNews(time, state_, {});
    if (!news.text.empty()) state_.lastReport = time;
    next_ = std::chrono::duration_cast<std::chrono::seconds>(news.nextLook.time_since_epoch());
    return news.text;
  }
  JoinState state_{TimePoint(), std::nullopt, {4, 1}, {}, {}};
  std::chrono::seconds next_{};
};

TEST_F(JoinReportTest, NamesWhoIsMissingAndForHowLong) {
  state_.present = {{kWorker, 0}, {kWorker, 1}, {kWorker, 2}, {kServer, 0}};
  state_.places[{kWorker, 3}] = "on host b";
  EXPECT_EQ(at(4s), "");
  EXPECT_EQ(next_, 5s);
  EXPECT_EQ(at(5s), "waiting for rank 3 on host b, 5 s");
  EXPECT_EQ(next_, 15s);
  EXPECT_EQ(at(14s), "");
  EXPECT_EQ(next_, 15s);
  EXPECT_EQ(at(20s), "waiting for rank 3 on host b, 20 s");
  EXPECT_EQ(next_, 30s);
  state_.present.insert({kWorker, 3});
  EXPECT_EQ(at(40s), "");
}

TEST_F(JoinReportTest, HostsMayBeUnknownAndManyAreCounted) {
  state_.present = {{kWorker, 1}};
  state_.places[{kServer, 0}] = "on host c";
  EXPECT_EQ(missingMembers(state_, 8), "rank 0, rank 2, rank 3, ps 0 on host c");
  EXPECT_EQ(missingMembers(state_, 2), "rank 0, rank 2 and 2 more");
  state_.expected = {1000, 0};
  EXPECT_EQ(missingMembers(state_, 1), "rank 0 and 998 more");
}

TEST_F(StoreTest, AllMembersGetTheSameListWorkersFirst) {
  const Expected expected{3, 2};
  std::vector<std::thread> threads;
  std::vector<Membership> got(5);
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      const auto store = connect();
      const auto self = i < 2 ? member(kServer, i, "a") : member(kWorker, i - 2, "b");
      auto membership = join(*store, 4, self, expected, soon());
      ASSERT_TRUE(membership.ok()) << membership.status();
      got[i] = *std::move(membership);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& membership : got) {
    EXPECT_EQ(membership.epoch, 4U);
    EXPECT_THAT(membership.members, ElementsAre(member(kWorker, 0, "b"), member(kWorker, 1, "b"),
                                                member(kWorker, 2, "b"), member(kServer, 0, "a"),
                                                member(kServer, 1, "a")));
  }
  EXPECT_EQ(got[0].find({kServer, 1}), 4);
  EXPECT_EQ(got[0].find({kServer, 2}), -1);
  EXPECT_EQ(got[0].members[3].name(), "ps 0 on host a");
}

TEST_F(StoreTest, JoinReportsWhoIsMissing) {
  const auto store = connect();
  ASSERT_TRUE(publishPlacement(*store, {{{kWorker, 1}, "on host b"}}, soon()).ok());
  std::vector<std::string> reports;
  std::thread second;
  const auto report = [&](const std::string& text) {
    reports.push_back(text);
    if (reports.size() != 2) return;
    second = std::thread([&] {
      EXPECT_TRUE(join(*connect(), 0, member(kWorker, 1, "b"), {2, 0}, soon()).ok());
    });
  };
  const auto membership =
      join(*store, 0, member(kWorker, 0, "a"), {2, 0}, soon(), report, {1ms, 1ms, 8});
  EXPECT_TRUE(membership.ok()) << membership.status();
  second.join();
  ASSERT_GE(reports.size(), 2U);
  EXPECT_THAT(reports[1], HasSubstr("waiting for rank 1 on host b, 0 s"));
}

// Rank 0 may be the one that is missing.
TEST_F(JoinReportTest, TheFirstOfThoseThatAreThereSpeaks) {
  state_.self = {kWorker, 2};
  state_.present = {{kWorker, 1}, {kWorker, 2}};
  EXPECT_EQ(at(5s), "");
  EXPECT_EQ(next_, 15s);
  state_.present = {{kWorker, 2}, {kServer, 0}};
  EXPECT_EQ(at(15s), "waiting for rank 0, rank 1, rank 3, 15 s");
  state_.present = {{kWorker, 0}};
  EXPECT_EQ(at(25s), "");
  EXPECT_THAT(joinNews(TimePoint() + 25s, state_, {.everybody = true}).text,
              HasSubstr("waiting for rank 1, rank 2, rank 3, ps 0, 25 s"));
}

TEST_F(StoreTest, OneOfThoseThatWaitForRank0SaysSo) {
  ASSERT_TRUE(publishPlacement(*connect(), {{{kWorker, 0}, "on host a"}}, soon()).ok());
  std::vector<std::atomic<int>> reports(3);
  std::vector<std::thread> threads;
  for (int rank = 2; rank >= 1; --rank) {
    threads.emplace_back([&, rank] {
      const auto report = [&, rank](const std::string& text) {
        EXPECT_THAT(text, HasSubstr("waiting for rank 0 on host a"));
        ++reports[static_cast<std::size_t>(rank)];
      };
      EXPECT_TRUE(
          join(*connect(), 0, member(kWorker, rank, "b"), {3, 0}, soon(), report, {1ms, 1ms, 8})
              .ok());
    });
    // Rank 1 is there when rank 2 looks for the first time, or soon after.
  }
  const Deadline deadline = soon();
  while (reports[1] < 3 && !deadline.expired()) std::this_thread::yield();
  const int before = reports[2];
  const int until = reports[1] + 5;
  while (reports[1] < until && !deadline.expired()) std::this_thread::yield();
  EXPECT_LE(reports[2] - before, 1);  // It may have been about to.
  EXPECT_GE(reports[1], until);
  EXPECT_TRUE(join(*connect(), 0, member(kWorker, 0, "a"), {3, 0}, soon()).ok());
  for (std::thread& thread : threads) thread.join();
}

TEST_F(StoreTest, JoinNamesThoseWhoDidNotCome) {
  const auto store = connect();
  ASSERT_TRUE(publishPlacement(*store, {{{kWorker, 2}, "on host c"}}, soon()).ok());
  const auto membership = join(*store, 0, member(kWorker, 0, "a"), {3, 1}, Deadline::after(30ms),
                               nullptr, {.advice = "start them"});
  EXPECT_EQ(toString(membership.status()),
            "timeout: the job is not complete after 0 s: rank 1, rank 2 on host c, ps 0 did not "
            "join; start them");
}

TEST_F(StoreTest, SecondProcessOfARankIsRefused) {
  const auto store = connect();
  std::thread first([&] {
    EXPECT_TRUE(join(*connect(), 0, member(kWorker, 0, "a"), {2, 0}, soon()).ok());
  });
  ASSERT_TRUE(store->waitCount("epoch/0/member/", 1, soon()).ok());
  auto twin = member(kWorker, 0, "b");
  twin.pid = 7;
  const auto refused = join(*store, 0, twin, {2, 0}, soon());
  EXPECT_EQ(toString(refused.status()),
            "refused: there are two processes for rank 0: this one (process 7 on host b) and "
            "process 100 on host a; start each rank once");
  // Those who are there go on.
  EXPECT_TRUE(join(*store, 0, member(kWorker, 1, "b"), {2, 0}, soon()).ok());
  first.join();
}

// A process that joins again does so for its next job; one that only has the number of another that
// is gone is not that one.
TEST_F(StoreTest, AProcessTakesAPlaceInEpochAfterEpoch) {
  const auto store = connect();
  const auto self = member(kWorker, 0, "a");
  EXPECT_EQ(*takePlace(*store, 3, self, {2, 0}, soon()), 3U);
  EXPECT_EQ(*takePlace(*store, 3, self, {2, 0}, soon()), 4U);
  auto replacement = self;
  replacement.process = 9;
  EXPECT_EQ(takePlace(*store, 3, replacement, {2, 0}, soon()).status().code(),
            StatusCode::kRefused);

  // The other one is still in the first job.
  EXPECT_EQ(join(*store, 3, member(kWorker, 1, "b"), {2, 0}, soon())->epoch, 3U);
  EXPECT_EQ(join(*store, 3, member(kWorker, 1, "b"), {2, 0}, soon())->epoch, 4U);
}

TEST_F(StoreTest, RanksOutOfRangeAreRefused) {
  const auto store = connect();
  EXPECT_EQ(toString(join(*store, 0, member(kWorker, 2, "a"), {2, 0}, soon()).status()),
            "invalid argument: rank 2 does not exist in a job of 2 workers and 0 servers");
  EXPECT_FALSE(join(*store, 0, member(kServer, 0, "a"), {2, 0}, soon()).ok());
  ASSERT_TRUE(
      join(*store, 0, member(kWorker, 5, "z"), {9, 0}, Deadline::after(1ms)).status().code() ==
      StatusCode::kTimeout);
  const auto mixed = join(*store, 0, member(kWorker, 0, "a"), {2, 0}, soon());
  EXPECT_THAT(toString(mixed.status()), HasSubstr("rank 5 on host z joined"));
}

TEST_F(StoreTest, FirstProposalOfTheNextEpochWins) {
  const auto a = connect(), b = connect();
  const std::vector<MemberId> first = {{kWorker, 0}, {kWorker, 2}, {kServer, 0}};
  const std::vector<MemberId> second = {{kWorker, 0}};
  EXPECT_EQ(*agreeOnNext(*a, 3, first, soon()), first);
  EXPECT_EQ(*agreeOnNext(*b, 3, second, soon()), first);
  EXPECT_EQ(*agreeOnNext(*b, 4, second, soon()), second);
}

TEST(MemberTest, RefusesMalformedEntries) {
  const std::string whole = encodeMember(member(kServer, 3, "host"));
  EXPECT_EQ(*parseMember(whole), member(kServer, 3, "host"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parseMember(std::string_view(whole).substr(0, size)).ok()) << size;
  }
}

TEST(HostKeyTest, OneHostIsOneNetworkNamespace) {
  EXPECT_EQ(hostKey(), hostKey());
  EXPECT_EQ(hostKey().size(), 32U);
  const auto key = test::inOwnNetwork([] { return hostKey(); });
  if (!key) GTEST_SKIP() << "no right to make one";
  EXPECT_EQ(key->size(), 32U);
  EXPECT_NE(*key, hostKey());
}

}  // namespace
}  // namespace colla::rendezvous
