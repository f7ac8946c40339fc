// Real processes, real signals: what the survivors of an exchange get to know, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <tuple>

#include "support/processes.h"

namespace colla::named {
namespace {

using namespace std::chrono_literals;
using colla::test::Processes;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NamedFaultsTest : public ::testing::TestWithParam<std::tuple<std::string, std::string, int>> {
};

// Every survivor ends what is pending within 2 s, naming the dead rank, whoever it was and whatever
// it was doing.
TEST_P(NamedFaultsTest, SurvivorsNameTheKilledRank) {
  const auto& [transport, mode, victim] = GetParam();
  Processes job(3, {COLLA_MEMBER, mode}, {{"COLLA_TRANSPORT", transport}});
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(job.says(rank, "going")) << job.end(rank).said;
  const auto killed = std::chrono::steady_clock::now();
  job.signal(victim, SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    const auto ended = job.end(rank);
    EXPECT_EQ(ended.code, 3) << ended.said;
    EXPECT_LT(ended.when - killed, 2s);
    const std::string name = "rank " + std::to_string(victim) + " on host testhost";
    EXPECT_THAT(ended.said, AllOf(HasSubstr("peer=" + std::to_string(victim) + " peer lost"),
                                  HasSubstr(name), HasSubstr("later peer lost")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, NamedFaultsTest,
                         ::testing::Combine(::testing::Values("shm", "tcp"),
                                            ::testing::Values("busy", "idle"),
                                            ::testing::Values(0, 1)),
                         [](const auto& made) {
                           return std::get<0>(made.param) + "_" + std::get<1>(made.param) +
                                  "_rank" + std::to_string(std::get<2>(made.param));
                         });

class NamedProcessesTest : public ::testing::TestWithParam<std::string> {};

// Nobody waits for the others at the end, and nobody is disturbed by those who have gone.
TEST_P(NamedProcessesTest, EndsOneByOne) {
  Processes job(3, {COLLA_MEMBER, "rounds"}, {{"COLLA_TRANSPORT", GetParam()}});
  for (int rank = 0; rank < 3; ++rank) {
    const auto ended = job.end(rank, 60s);
    EXPECT_EQ(ended.code, 0) << ended.said;
    EXPECT_THAT(ended.said, AllOf(HasSubstr("sum=3\n"), HasSubstr("fine")));
  }
}

TEST_P(NamedProcessesTest, AnOrderlyEndIsToldToThoseWhoWait) {
  Processes job(3, {COLLA_MEMBER, "leave"}, {{"COLLA_TRANSPORT", GetParam()}});
  for (const int rank : {0, 2}) {
    const auto ended = job.end(rank);
    EXPECT_EQ(ended.code, 3) << ended.said;
    EXPECT_THAT(ended.said, HasSubstr("peer=1 cancelled: rank 1 on host testhost has shut down"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, NamedProcessesTest, ::testing::Values("shm", "tcp", "tcp-plain"),
                         [](const auto& made) {
                           return made.param == "tcp-plain" ? "plain" : made.param;
                         });

}  // namespace
}  // namespace colla::named
