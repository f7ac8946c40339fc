// Jobs whose workers are threads of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/log.h"
#include "colla/job.h"

namespace colla {
namespace {

using ::testing::HasSubstr;

TEST(JobInThreadsTest, WorkersReduceTogether) {
  auto jobs = Job::inThreads(3, {.torchVersion = {}, .settings = {{"slices", "6"}}});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  std::vector<std::thread> threads;
  for (auto& job : *jobs) {
    threads.emplace_back([&job] {
      const auto bucket = job->allocate(1000 * sizeof(float));
      ASSERT_TRUE(bucket.ok()) << bucket.status();
      std::ranges::fill(bucket->as<float>(), static_cast<float>(job->rank()));
      const Status status = allreduce(job->world(), bucket->as<float>());
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(bucket->as<float>()[999], 3.0f);
      EXPECT_EQ(job->size(), 3);
      EXPECT_EQ(job->slices(), 6);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(JobInThreadsTest, WhatIsInCommonIsWrittenOnce) {
  auto jobs = Job::inThreads(3);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  std::vector<std::thread> threads;
  for (auto& job : *jobs) {
    threads.emplace_back([&job] {
      EXPECT_TRUE(job->epoch().topology().sharesMemory());
      const auto common = job->allocateCommon(3 * sizeof(int));
      ASSERT_TRUE(common.ok()) << common.status();
      const auto numbers = common->as<std::int32_t>();
      numbers[job->rank()] = job->rank() + 1;
      EXPECT_TRUE(barrier(job->world()).ok());
      EXPECT_THAT(numbers, testing::ElementsAre(1, 2, 3));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(JobInThreadsTest, LogLinesSayWhoSpeaks) {
  const auto jobs = Job::inThreads(3);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ::testing::internal::CaptureStderr();
  log::warn("hello");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(" W ranks 0-2 host " + (*jobs)[0]->host() + ": hello\n"));
}

TEST(JobInThreadsTest, RefusesWhatCannotBe) {
  EXPECT_THAT(Job::inThreads(0).status().message(), HasSubstr("at least one worker"));
  const auto few = Job::inThreads(3, {.torchVersion = {}, .settings = {{"slices", "2"}}});
  EXPECT_THAT(few.status().message(), HasSubstr("3 workers can't share 2 slices (--slices)"));
  const auto unknown = Job::inThreads(1, {.torchVersion = {}, .settings = {{"slces", "2"}}});
  EXPECT_THAT(unknown.status().message(), HasSubstr("slces"));
}

}  // namespace
}  // namespace colla
