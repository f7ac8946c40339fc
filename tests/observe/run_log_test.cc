#include "observe/run_log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "observe/fixture.h"

namespace colla::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::string_view kHeader = "step\tstart\tend\tloss\taccuracy\n";

class RunLogTest : public ObserveTest {
 protected:
  Result<RunLog> open(std::int64_t resumedStep = 0) {
    RunLog::Options options;
    options.resumedStep = resumedStep;
    options.clock = &clock_;
    return RunLog::open(path_, options);
  }
  static Step stepAt(std::int64_t number, double start) {
    return {.number = number,
            .start = start,
            .end = start + 0.25,
            .samples = 10,
            .loss = 1.0 / 3,
            .metrics = kMetrics};
  }
  static constexpr std::array<Metric, 2> kMetrics = {Metric{"top5", 0.9}, Metric{"accuracy", 0.5}};
  const std::string path_ = folder_ + "/log.txt";
};

TEST_F(RunLogTest, HasOneRowPerStep) {
  auto log = open();
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE(log->step(stepAt(1, 0.000002)).ok());
  ASSERT_TRUE(log->step({.number = 2, .start = 1, .end = 2, .loss = NAN, .metrics = {}}).ok());
  ASSERT_TRUE(log->close().ok());
  EXPECT_EQ(readText(path_), std::string(kHeader) +
                                 "1\t0.000002\t0.250002\t0.333333333\t0.500000\n"
                                 "2\t1.000000\t2.000000\tnan\tnan\n");
}

TEST_F(RunLogTest, ResumeDropsLaterRowsAndGoesOnInTime) {
  {
    auto log = open();
    ASSERT_TRUE(log.ok()) << log.status();
    for (int i = 1; i <= 12; ++i) ASSERT_TRUE(log->step(stepAt(i, i)).ok());
  }
  std::ofstream(path_, std::ios::app) << "13\t13.0000";  // As a crash leaves it.
  {
    auto log = open(10);
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_TRUE(log->step(stepAt(11, 0.5)).ok());
  }
  const std::string text = readText(path_);
  EXPECT_THAT(text, HasSubstr("\n10\t10.000000\t10.250000\t0.333333333\t0.500000\n"
                              "11\t10.750000\t11.000000\t0.333333333\t0.500000\n"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 12);
}

TEST_F(RunLogTest, ResumeBeyondTheLastRowKeepsAllWholeOnes) {
  std::ofstream(path_) << kHeader << "1\t0.0\t0.5\tnan\t0.1\n2\t0.5\t1.0\t2.";
  { ASSERT_TRUE(open(7).ok()); }
  EXPECT_EQ(readText(path_), std::string(kHeader) + "1\t0.0\t0.5\tnan\t0.1\n");
}

TEST_F(RunLogTest, NewRunStartsAnew) {
  std::ofstream(path_) << kHeader << "1\t0.0\t0.5\t2.0\t0.1\n";
  { ASSERT_TRUE(open().ok()); }
  EXPECT_EQ(readText(path_), kHeader);
}

TEST_F(RunLogTest, CrashBeforeTheHeaderWasOutDoesNoHarm) {
  std::ofstream(path_) << kHeader.substr(0, 7);
  { ASSERT_TRUE(open(3).ok()); }
  EXPECT_EQ(readText(path_), kHeader);
}

TEST_F(RunLogTest, LeavesOtherFilesAlone) {
  for (const char* text : {"notes\nof mine\n", "notes"}) {
    std::ofstream(path_, std::ios::trunc) << text;
    EXPECT_THAT(toString(open().status()),
                HasSubstr(path_ + " exists and is not the log of a run"));
    EXPECT_EQ(readText(path_), text);
  }
}

}  // namespace
}  // namespace colla::observe
