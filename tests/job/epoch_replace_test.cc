// Real processes go from epoch to epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <regex>
#include <set>
#include <thread>

#include "colla/job.h"
#include "support/processes.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
using test::Processes;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kForever = "1000000000";

std::vector<std::string> found(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> all;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    all.push_back(it->str(1));
  }
  return all;
}

class EpochsTest : public ::testing::TestWithParam<std::string> {};

// 3, 2, 4 and 1 workers, in other orders than the job's, with a recorder that moves.
TEST_P(EpochsTest, SumsOfSlicesHaveTheSameBitsInEveryEpoch) {
  Processes job(4, {COLLA_EPOCH_MEMBER, "1", "0,1,2", "3,1:1", "0,1,2,3", "2"},
                {{"COLLA_TRANSPORT", GetParam()}, {"COLLA_SLICES", "4"}});
  Processes alone(1, {COLLA_EPOCH_MEMBER, "1", "0"}, {{"COLLA_SLICES", "4"}});
  const auto straight = alone.end(0);
  ASSERT_EQ(straight.code, 0) << straight.said;
  const std::vector<std::string> expected = found(straight.said, "sum (\\w+)");
  ASSERT_EQ(expected.size(), 1u);

  const std::size_t epochs[] = {2, 3, 3, 2};  // In which the process takes part.
  const std::vector<std::vector<std::string>> ranks = {
      {"0", "-1", "0", "-1"}, {"1", "1", "1", "-1"}, {"2", "-1", "2", "0"}, {"-1", "0", "3", "-1"}};
  for (int process = 0; process < 4; ++process) {
    const auto ended = job.end(process);
    ASSERT_EQ(ended.code, 0) << ended.said;
    EXPECT_EQ(found(ended.said, "rank (-?\\d+) workers"), ranks[process]);
    EXPECT_THAT(found(ended.said, "epoch (\\d)"), ::testing::ElementsAre("1", "2", "3", "4"));
    EXPECT_THAT(found(ended.said, "workers (\\S+)"),
                ::testing::ElementsAre("0,1,2", "3,1", "0,1,2,3", "2"));
    EXPECT_THAT(found(ended.said, "recorder (\\d)"), ::testing::ElementsAre("0", "1", "0", "0"));
    EXPECT_THAT(
        found(ended.said, "records (\\w+)"),
        ::testing::ElementsAre(process == 0 ? "true" : "false", process == 1 ? "true" : "false",
                               process == 0 ? "true" : "false", process == 2 ? "true" : "false"));
    const auto sums = found(ended.said, "sum (\\w+)");
    EXPECT_EQ(sums.size(), epochs[process]);
    EXPECT_EQ(std::set(sums.begin(), sums.end()), std::set{expected[0]});
  }
}

TEST_P(EpochsTest, ServersAndIdleWorkersLearnEveryEpoch) {
  Processes job(2, {COLLA_EPOCH_MEMBER, "2", "1", "1,0:1", "0"},
                {{"COLLA_TRANSPORT", GetParam()}, {"COLLA_SLICES", "4"}}, {}, /*servers=*/2);
  for (int process = 0; process < 4; ++process) {
    const auto ended = job.end(process);
    ASSERT_EQ(ended.code, 0) << ended.said;
    EXPECT_THAT(found(ended.said, "epoch (\\d)"), ::testing::ElementsAre("1", "2", "3"));
    EXPECT_THAT(found(ended.said, "workers (\\S+)"), ::testing::ElementsAre("1", "1,0", "0"));
    EXPECT_EQ(found(ended.said, "sum (\\w+)").size(), process < 2 ? 2u : 0u);
  }
}

TEST_P(EpochsTest, SurvivorsNameAProcessThatIsKilledOnTheWay) {
  Processes job(4, {COLLA_EPOCH_MEMBER, kForever, "0,1,2", "3,1:1", "0,1,2,3", "2"},
                {{"COLLA_TRANSPORT", GetParam()}, {"COLLA_SLICES", "4"}});
  for (int process = 0; process < 4; ++process) {
    ASSERT_TRUE(job.says(process, "going")) << job.end(process).said;
  }
  const auto killed = std::chrono::steady_clock::now();
  job.signal(2, SIGKILL);
  for (const int process : {0, 1, 3}) {
    const auto ended = job.end(process);
    EXPECT_EQ(ended.code, 3) << ended.said;
    EXPECT_LT(ended.when - killed, 2s);
    EXPECT_THAT(ended.said, AllOf(HasSubstr("peer=2 "), HasSubstr("rank 2 on host testhost")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EpochsTest, ::testing::Values("shm", "tcp"),
                         [](const auto& made) { return made.param; });

// All workers of a job of threads do the same.
template <typename Body>
void inThreads(int workers, const Body& body) {
  auto jobs = Job::inThreads(workers, {.settings = {{"slices", "4"}}});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  std::vector<std::thread> threads;
  for (auto& job : *jobs) threads.emplace_back([&body, &job] { body(*job); });
  for (std::thread& thread : threads) thread.join();
}

TEST(EpochPlanTest, AllProcessesRefuseABadPlanAlikeAndGoOn) {
  inThreads(3, [](Job& job) {
    const auto refused = [&](const EpochPlan& plan, const std::string& why) {
      const Status status = job.replaceEpoch(job.rank() == 1 ? std::optional(plan) : std::nullopt);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(job.rank() == 1 ? why : "rank 1 on host"));
    };
    refused({.workers = {}}, "at least one worker");
    refused({.workers = {0, 3}}, "worker 3 is not one of 0 to 2");
    refused({.workers = {0, 0}}, "named twice");
    refused({.workers = {2, 0}, .recorder = 2}, "the recorder, rank 2");

    const Status none = job.replaceEpoch(std::nullopt);
    EXPECT_EQ(none.code(), StatusCode::kInvalidArgument) << none;
    const Status differ = job.replaceEpoch(EpochPlan{.workers = {job.rank()}});
    EXPECT_EQ(differ.code(), StatusCode::kMismatch) << differ;
    EXPECT_THAT(std::string(differ.message()), AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));

    EXPECT_EQ(job.epoch().number(), 0u);
    EXPECT_TRUE(job.replaceEpoch(EpochPlan{.workers = {2, 0}}).ok());
    EXPECT_EQ(job.epoch().number(), 1u);
    EXPECT_EQ(job.epoch().takesPart(), job.rank() != 1);
  });
}

TEST(EpochPlanTest, AnOldEpochAndItsGroupStayUntilItsLastCopyGoes) {
  inThreads(2, [](Job& job) {
    const Epoch old = job.epoch();
    ASSERT_TRUE(job.replaceEpoch(EpochPlan{.workers = {1, 0}}).ok());
    EXPECT_NE(&old.world(), &job.world());
    EXPECT_EQ(job.epoch().rank(), 1 - old.rank());
    EXPECT_TRUE(barrier(old.world()).ok());
    EXPECT_TRUE(barrier(job.world()).ok());
  });
}

// Others may still read what was given up, until all processes have met.
TEST(EpochMemoryTest, WhatABucketLeavesServesTheNextEpoch) {
  inThreads(2, [](Job& job) {
    constexpr std::size_t kBytes = std::size_t{1} << 16;
    const std::byte* first = nullptr;
    {
      const auto bucket = job.allocate(kBytes);
      ASSERT_TRUE(bucket.ok()) << bucket.status();
      bucket->as<float>()[7] = 1;
      first = bucket->bytes().data();
    }
    const auto meanwhile = job.allocate(kBytes);
    ASSERT_TRUE(meanwhile.ok()) << meanwhile.status();
    EXPECT_NE(meanwhile->bytes().data(), first);
    ASSERT_TRUE(job.replaceEpoch(EpochPlan{.workers = {1, 0}}).ok());
    const auto again = job.allocate(kBytes);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->bytes().data(), first);
    EXPECT_EQ(again->as<float>()[7], 0);
  });
}

}  // namespace
}  // namespace colla
