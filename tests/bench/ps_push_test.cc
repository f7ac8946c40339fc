// Real workers and a real server, which push little. Checks what comes out, never how fast.
#include "bench/ps_push.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Parameters are checked by the agents: a wrong sum would be an error here.
TEST(PushTest, EveryNumberOfWorkersPushesThroughOneServer) {
  const auto coordinator = *Coordinator::create();
  // Three blocks, the last of them short.
  const PushOptions options{.workers = {1, 3},
                            .bytes = (std::size_t{2} << 20) + 4096,
                            .rounds = 2,
                            .seconds = 0.01,
                            .progress = {}};
  const auto measured = measurePush(*coordinator, options);
  ASSERT_TRUE(measured.ok()) << measured.status();
  ASSERT_GE(measured->size(), 3U);
  EXPECT_EQ(measured->front().system, "memory-1");
  for (const auto& [place, workers] : {std::pair(2, 1), std::pair(1, 3)}) {
    const PushMeasurement& m = (*measured)[measured->size() - static_cast<std::size_t>(place)];
    EXPECT_EQ(m.workers, workers);
    EXPECT_EQ(m.bytes, options.bytes);
    EXPECT_EQ(m.rounds, 2);
    EXPECT_GT(m.stepSeconds, 0);
    // Gradients one way, parameters the other.
    EXPECT_NEAR(m.bytesPerSecond * m.stepSeconds, 2.0 * workers * double(options.bytes), 1);
  }
}

TEST(PushTest, TooMuchForThisMachineIsRefused) {
  PushOptions options;
  options.bytes = std::size_t{1} << 50;
  const Status status = checkPushMemory(options);
  EXPECT_EQ(status.code(), StatusCode::kNoMemory);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("up to 8 workers"), HasSubstr("--bytes")));
}

}  // namespace
}  // namespace colla::bench
