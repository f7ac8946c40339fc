// How many CPUs a process takes for itself.
#include "job/cpu.h"

#include <gtest/gtest.h>

namespace colla::job {
namespace {

TEST(CpusForOneTest, SharesWhatAllProcessesOfAHostMayUse) {
  EXPECT_EQ(cpusForOne(/*localSize=*/4, /*own=*/0, /*usable=*/16), 4);
  EXPECT_EQ(cpusForOne(3, 0, 16), 5);
  EXPECT_EQ(cpusForOne(4, 0, 2), 1);
}

// `srun -c 4 --ntasks-per-node 4`: with task/affinity each task sees its own 4 CPUs, without it all
// 16 of the allocation.
TEST(CpusForOneTest, TakesWhatTheLauncherCountsForEach) {
  EXPECT_EQ(cpusForOne(4, 4, 4), 4);
  EXPECT_EQ(cpusForOne(4, 4, 16), 4);
  EXPECT_EQ(cpusForOne(4, 4, 1), 1);  // Bound to fewer by somebody else.
}

TEST(HasCoresForAllTest, KnowsBoundProcesses) {
  EXPECT_TRUE(hasCoresForAll(4, 0, 4));
  EXPECT_FALSE(hasCoresForAll(4, 0, 2));
  EXPECT_TRUE(hasCoresForAll(4, 2, 2));   // Each has two of its own.
  EXPECT_FALSE(hasCoresForAll(4, 1, 2));  // Not bound, and more processes than CPUs.
}

}  // namespace
}  // namespace colla::job
