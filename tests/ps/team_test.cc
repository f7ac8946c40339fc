#include "ps/team.h"

#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <vector>

namespace colla::ps {
namespace {

TEST(TeamTest, EveryItemIsDoneOnceAndSeenByTheCaller) {
  for (const int threads : {1, 2, 5}) {
    Team team(threads, /*worthSharing=*/0);
    EXPECT_EQ(team.size(), threads);
    for (std::size_t count = 0; count < 60; ++count) {
      std::vector<int> done(count);  // Not atomic: whoever does an item is alone with it.
      for (int loop = 0; loop < 5; ++loop)
        team.forEach(count, 0, [&](std::size_t i) { ++done[i]; });
      EXPECT_EQ(done, std::vector<int>(count, 5)) << threads << " threads";
    }
  }
}

// Hangs if one thread had to do all of them.
TEST(TeamTest, ThreadsWorkAtTheSameTime) {
  Team team(3, /*worthSharing=*/1);
  std::latch all(3);
  team.forEach(3, 1, [&](std::size_t) { all.arrive_and_wait(); });
  EXPECT_TRUE(all.try_wait());
}

TEST(TeamTest, LittleWorkIsTheCallersAlone) {
  Team team(3, /*worthSharing=*/100);
  const auto caller = std::this_thread::get_id();
  for (int loop = 0; loop < 50; ++loop) {
    team.forEach(20, 99, [&](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  }
}

}  // namespace
}  // namespace colla::ps
