#include "colla/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace colla {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

std::vector<double> factors(std::string_view text, int steps) {
  const auto schedule = parseSchedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  std::vector<double> values;
  for (int step = 0; step < steps; ++step) values.push_back(factorAt(*schedule, step));
  return values;
}

// To the last digits: the expected values below are written in decimals.
testing::Matcher<std::vector<double>> near(const std::vector<double>& expected) {
  return Pointwise(DoubleNear(1e-15), expected);
}

TEST(ScheduleTest, ConstantIsExactlyOne) {
  EXPECT_THAT(factors("constant", 3), ElementsAre(1, 1, 1));
}

TEST(ScheduleTest, StepFallsEverySoManySteps) {
  EXPECT_THAT(factors("step:3:0.1", 8), near({1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01}));
  EXPECT_THAT(factors("step:1:0.5", 4), ElementsAre(1, 0.5, 0.25, 0.125));
  EXPECT_EQ(factorAt(*parseSchedule("step:2:0.5"), 2'000'000'000'000), 0);
}

TEST(ScheduleTest, ExponentialFallsAtEachStep) {
  EXPECT_THAT(factors("exponential:2:0.25", 5), ElementsAre(1, 0.5, 0.25, 0.125, 0.0625));
  EXPECT_THAT(factors("exponential:10:0.5", 2), near({1, 0.9330329915368074}));  // 2^-0.1
}

TEST(ScheduleTest, CosineFallsToItsFloorAndStays) {
  const double high = 0.8535533905932737, low = 0.1464466094067263;  // (1 ± sqrt(1/2)) / 2
  EXPECT_THAT(factors("cosine:4", 7), near({1, high, 0.5, low, 0, 0, 0}));
  EXPECT_THAT(factors("cosine:4:0.2", 6),
              near({1, 0.2 + 0.8 * high, 0.6, 0.2 + 0.8 * low, 0.2, 0.2}));
  // Exact where it starts and ends, whatever the cosine.
  EXPECT_EQ(factors("cosine:3:0.3", 1)[0], 1);
  EXPECT_EQ(factors("cosine:3:0.3", 4)[3], 0.3);
}

// The run counts plateaus; what is left for the schedule is to say what they are.
TEST(ScheduleTest, PlateausAreNamed) {
  const auto schedule = parseSchedule("plateau:accuracy:3:0.1:0.002,warmup:2");
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(std::get<PlateauRate>(schedule->shape), (PlateauRate{"accuracy", 3, 0.1, 0.002}));
  EXPECT_EQ(toString(*schedule), "plateau:accuracy:3:0.1:0.002,warmup:2");
  EXPECT_THAT(factors("plateau:loss:1:0.5,warmup:2", 4), ElementsAre(0.5, 1, 1, 1));
  EXPECT_FALSE(parseSchedule("plateau:loss:1").ok());
  EXPECT_FALSE(parseSchedule("plateau::1:0.5").ok());
  EXPECT_FALSE(parseSchedule("plateau:loss:0:0.5").ok());
  EXPECT_FALSE(parseSchedule("plateau:loss:1:1").ok());
  EXPECT_FALSE(parseSchedule("plateau:loss:1:0.5:-1").ok());
}

TEST(ScheduleTest, WarmupRisesInFrontOfEachShape) {
  EXPECT_THAT(factors("constant,warmup:4", 6), ElementsAre(0.25, 0.5, 0.75, 1, 1, 1));
  EXPECT_THAT(factors("step:2:0.5,warmup:2", 7), ElementsAre(0.5, 1, 1, 1, 0.5, 0.5, 0.25));
  EXPECT_THAT(factors("exponential:1:0.5,warmup:2", 5), ElementsAre(0.5, 1, 1, 0.5, 0.25));
  EXPECT_THAT(factors("cosine:2,warmup:2", 6), near({0.5, 1, 1, 0.5, 0, 0}));
  EXPECT_THAT(factors("constant,warmup:0", 2), ElementsAre(1, 1));
}

TEST(ScheduleTest, TextIsReadBackAsTheSameSchedule) {
  for (const char* text : {"constant", "step:30:0.1", "exponential:1000:0.96", "cosine:100:0",
                           "cosine:100:0.05,warmup:10", "constant,warmup:5"}) {
    const auto schedule = parseSchedule(text);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(toString(*schedule), text);
  }
  EXPECT_EQ(toString(*parseSchedule("cosine:7")), "cosine:7:0");
}

TEST(ScheduleTest, BadTextIsRefusedWithWhatIsWrong) {
  const std::pair<const char*, const char*> bad[] = {
      {"", "learning-rate schedule \"\": expected constant, step:EVERY:FACTOR"},
      {"linear", "\"linear\": expected constant"},
      {"constant:1", "constant is written constant, with"},
      {"step:3", "step is written step:EVERY:FACTOR, with"},
      {"step:3:0.1:4", "step is written step:EVERY:FACTOR"},
      {"step:3.5:0.1", "\"3.5\" is not a whole number"},
      {"step:three:0.1", "\"three\" is not a whole number"},
      {"step:99999999999999999999:0.1", "is not a whole number in range"},
      {"step:3:", "\"\" is not a number"},
      {"step:3:x", "\"x\" is not a number"},
      {"step:3:1e999", "\"1e999\" is not a number in range"},
      {"step:0:0.1", "the number of steps is 0: it must be at least 1"},
      {"exponential:-1:0.1", "the number of steps is -1"},
      {"step:3:-0.1", "the factor is -0.1: it must be a number above 0"},
      {"step:3:nan", "the factor is nan"},
      {"exponential:3:inf", "the factor is inf"},
      {"cosine", "cosine is written cosine:STEPS[:FLOOR]"},
      {"plateau:loss", "plateau is written plateau:METRIC:PATIENCE:FACTOR[:MIN-DELTA], with"},
      {"plateau:loss:2:0.5:inf", "the least difference is inf"},
      {"cosine:0", "the number of steps is 0"},
      {"cosine:10:1.5", "the floor is 1.5: it must be at least 0 and at most 1"},
      {"cosine:10:nan", "the floor is nan"},
      {"constant,warmup", "constant is written constant, with or without ,warmup:STEPS"},
      {"constant,warm:3", "without ,warmup:STEPS behind it"},
      {"constant,warmup:-3", "the warm-up is -3: it must be at least 0 steps"},
      {"constant,warmup:3,warmup:3", "without ,warmup:STEPS behind it"},
  };
  for (const auto& [text, error] : bad) {
    const auto schedule = parseSchedule(text);
    ASSERT_FALSE(schedule.ok()) << text;
    EXPECT_EQ(schedule.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(toString(schedule.status()), HasSubstr(error));
  }
}

TEST(ScheduleTest, LearningRateScalesWithSlices) {
  EXPECT_EQ(scaleLearningRate(0.1, 1), 0.1);
  EXPECT_EQ(scaleLearningRate(0.25, 8), 2);
}

}  // namespace
}  // namespace colla
