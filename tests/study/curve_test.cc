#include "study/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/scratch.h"

namespace colla::study {
namespace {

using ::testing::HasSubstr;

// Ten steps of 0.1 s; the test set is evaluated for 5 s after step 5 and after step 10.
Curve tenSteps(bool inStep = true) {
  Curve curve;
  curve.samplesPerStep = 20;
  curve.inStep = inStep;
  curve.warmUp = 2;
  double now = 0;
  for (int step = 1; step <= 10; ++step) {
    const bool evaluated = step % 5 == 0;
    curve.points.push_back({.step = step,
                            .start = now,
                            .end = now + 0.1,
                            .loss = 10.0 - step,
                            .evaluated = evaluated,
                            .testLoss = 11.0 - step});
    now += 0.1 + (evaluated ? 5 : 0);
  }
  return curve;
}

TEST(CurveTest, EvaluationsTakeNoTime) {
  EXPECT_NEAR(secondsPerStep(tenSteps()), 0.1, 1e-9);
  EXPECT_NEAR(medianSecondsPerStep(tenSteps()), 0.1, 1e-9);
  EXPECT_NEAR(trainingSeconds(tenSteps()).back(), 1.0, 1e-9);
}

// Where the others go on while worker 0 evaluates, what they did then is not measured.
TEST(CurveTest, WorkersThatAreNotInStepGoOnMeanwhile) {
  Curve curve = tenSteps(false);
  for (std::size_t i = 5; i < curve.points.size(); ++i) curve.points[i].step += 100;
  EXPECT_NEAR(secondsPerStep(curve), 0.1, 1e-9);
  EXPECT_NEAR(trainingSeconds(curve).back(), 11.0, 1e-9);
}

TEST(CurveTest, TimeToALossLiesBetweenEvaluations) {
  const auto all = losses(tenSteps());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(lowest(all), 1.0);
  // 6 after half a second, 1 after a whole one.
  EXPECT_NEAR(*secondsTo(3.5, all), 0.75, 1e-9);
  EXPECT_NEAR(*secondsTo(8, all), 0.5, 1e-9);
  EXPECT_FALSE(secondsTo(0.5, all));
}

TEST(CurveTest, WithoutATestSetTrainingLossesAreSmoothed) {
  Curve curve = tenSteps();
  for (CurvePoint& point : curve.points) point.evaluated = false;
  const auto all = losses(curve);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_NEAR(all.front().loss, 7, 1e-9);  // The mean of 9 to 5.
}

TEST(CurveTest, WarmUp) {
  EXPECT_EQ(warmUpOf(200), 20);
  EXPECT_EQ(warmUpOf(20), 5);
  EXPECT_EQ(warmUpOf(4), 2);
}

TEST(CurveTest, ReadsWhatATrainingWrote) {
  const Scratch scratch;
  std::ofstream(scratch.path() + "/steps.jsonl")
      << R"({"step":1,"loss":2.5,"metrics":{"accuracy":0.1},"seconds":0.1,"samples_per_s":100})"
      << "\n"
      << R"({"step":2,"loss":null,"metrics":{"val_loss":2.0,"val_accuracy":0.5},"seconds":0.1})"
      << "\n"
      << R"({"total":true,"steps":2,"samples":20,"seconds":0.2})"
      << "\n";
  std::ofstream(scratch.path() + "/log.txt")
      << "step\tstart\tend\tloss\taccuracy\n1\t0.000000\t0.100000\t2.5\t0.1\n2\t0.100000\t0."
         "250000\tnan\t0.1\n";
  const auto curve = readCurve(scratch.path() + "/steps.jsonl", scratch.path() + "/log.txt", true);
  ASSERT_TRUE(curve.ok()) << curve.status();
  EXPECT_EQ(curve->samplesPerStep, 10);
  ASSERT_EQ(curve->points.size(), 2u);
  EXPECT_EQ(curve->points[1].testAccuracy, 0.5);
  EXPECT_NEAR(secondsPerStep(*curve), 0.15, 1e-9);

  EXPECT_EQ(curve->steps, 2);

  // Under ps-async worker 0 may have come to a single step: the whole says how long one took.
  std::ofstream(scratch.path() + "/one.jsonl")
      << R"({"step":2,"loss":2,"metrics":{},"seconds":0.1})"
      << "\n"
      << R"({"total":true,"steps":4,"samples":40,"seconds":0.8})"
      << "\n";
  const auto one = readCurve(scratch.path() + "/one.jsonl", scratch.path() + "/log.txt", false);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_NEAR(secondsPerStep(*one), 0.2, 1e-9);
  EXPECT_FALSE(readCurve(scratch.path() + "/one.jsonl", scratch.path() + "/log.txt", true).ok());

  std::ofstream(scratch.path() + "/half.jsonl") << R"({"step":1,"loss":2.5)";
  const auto half = readCurve(scratch.path() + "/half.jsonl", scratch.path() + "/log.txt", true);
  ASSERT_FALSE(half.ok());
  EXPECT_THAT(std::string(half.status().message()),
              HasSubstr("half.jsonl has a line that is not JSON"));
}

}  // namespace
}  // namespace colla::study
