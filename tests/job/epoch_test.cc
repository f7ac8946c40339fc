// What a process learns of its job's epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "colla/job.h"

namespace colla {
namespace {

using ::testing::ElementsAre;

TEST(EpochTest, AProcessByItselfIsTheOnlyWorker) {
  auto job = Job::init({.settings = {{"slices", "3"}}});
  ASSERT_TRUE(job.ok()) << job.status();
  const Epoch epoch = (*job)->epoch();
  EXPECT_EQ(epoch.number(), 0u);
  EXPECT_EQ(epoch.rank(), 0);
  EXPECT_EQ(epoch.workers(), 1);
  EXPECT_EQ(epoch.servers(), 0);
  EXPECT_EQ(epoch.mine(), (SliceRange{0, 3}));
  EXPECT_EQ(epoch.topology().hosts(), 1);
  EXPECT_EQ(epoch.world().size(), 1);
  EXPECT_EQ(&epoch.host(), &epoch.world());
  EXPECT_TRUE(epoch.records());
}

TEST(EpochTest, EveryWorkerHasItsRankAndSlices) {
  auto jobs = Job::inThreads(3, {.settings = {{"slices", "7"}}});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  for (int rank = 0; rank < 3; ++rank) {
    Job& job = *(*jobs)[rank];
    const Epoch epoch = job.epoch();
    EXPECT_EQ(epoch.rank(), rank);
    EXPECT_EQ(epoch.workers(), 3);
    EXPECT_THAT(epoch.processes(), ElementsAre(0, 1, 2));
    EXPECT_EQ(epoch.slices().slices(), 7);
    EXPECT_EQ(epoch.mine(), epoch.slices().range(rank));
    EXPECT_TRUE(epoch.topology().sharesMemory());
    EXPECT_EQ(epoch.recorder(), 0);
    EXPECT_EQ(epoch.records(), rank == 0);
    EXPECT_EQ(&epoch.world(), &job.world());
    EXPECT_EQ(&epoch.host(), &job.world());
  }
}

}  // namespace
}  // namespace colla
