#include "ps/team.h"

#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <vector>

namespace colla::ps {
namespace {

TEST(TeamTest, EveryItemIsDoneOnceAndSeenByTheCaller) {
  for (const int threads : {1, 2, 5}) {
    Team team(threads);
    EXPECT_EQ(team.size(), threads);
    for (std::size_t count = 0; count < 60; ++count) {
      std::vector<int> done(count);  // Not atomic: whoever does an item is alone with it.
      for (int loop = 0; loop < 5; ++loop) team.forEach(count, [&](std::size_t i) { ++done[i]; });
      EXPECT_EQ(done, std::vector<int>(count, 5)) << threads << " threads";
    }
  }
}

// Hangs if one thread had to do all of them.
TEST(TeamTest, ThreadsWorkAtTheSameTime) {
  Team team(3);
  std::latch all(3);
  team.forEach(3, [&](std::size_t) { all.arrive_and_wait(); });
  EXPECT_TRUE(all.try_wait());
}

}  // namespace
}  // namespace colla::ps
