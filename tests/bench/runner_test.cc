#include "bench/runner.h"

#include <gtest/gtest.h>

namespace colla::bench {
namespace {

TEST(NextIterationsTest, AimsAtTheTargetInBoundedSteps) {
  EXPECT_EQ(nextIterations(1, 0.001, 0.1), 32);  // Would be 100, but first ones are slow.
  EXPECT_EQ(nextIterations(32, 0.032, 0.1), 100);
  EXPECT_EQ(nextIterations(100, 1.0, 0.1), 10);  // Too many before.
  EXPECT_EQ(nextIterations(1, 5.0, 0.1), 1);     // One at least.
  EXPECT_EQ(nextIterations(1'900'000, 1e-6, 1.0), 2'000'000);
}

}  // namespace
}  // namespace colla::bench
