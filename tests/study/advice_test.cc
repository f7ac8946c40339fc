// The rule by which a study recommends, on figures made for each case.
#include "study/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::study {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Spread around(double median, double share = 0.01) {
  return {median, median * (1 - share), median * (1 + share), 3};
}

struct Case {
  std::string strategy;
  int workers = 1;
  double seconds = 1;  // To the loss.
  double cost = 1;
  double rate = 100;
  double share = 0.01;
};

Summary summaryFor(const Case& given) {
  Summary summary;
  summary.variant.id = given.strategy + "-" + std::to_string(given.workers);
  summary.variant.label = given.workers == 1 ? "one worker" : given.strategy;
  summary.variant.purpose = given.workers == 1 ? Purpose::kBaseline : Purpose::kStrategy;
  summary.variant.strategy = given.strategy;
  summary.variant.workers = given.workers;
  summary.variant.exact = given.strategy != "ps-async";
  summary.done = 3;
  summary.samplesPerSecond = around(given.rate, given.share);
  summary.secondsToLoss = around(given.seconds, given.share);
  summary.coreSecondsToLoss = around(given.cost, given.share);
  summary.cores = around(1);
  return summary;
}

Figures figuresFor(std::initializer_list<Case> cases) {
  Figures figures;
  figures.targets = {1.0};
  for (const Case& each : cases) figures.summaries.push_back(summaryFor(each));
  return figures;
}

TEST(AdviceTest, ManyWorkersThatPay) {
  const Advice advice =
      adviseFrom(figuresFor({{"single", 1, 10, 10, 100}, {"allreduce", 4, 4, 15, 260}}), 8);
  EXPECT_EQ(advice.decision, "allreduce-4");
  EXPECT_DOUBLE_EQ(advice.speedup, 2.5);
  EXPECT_DOUBLE_EQ(advice.costRatio, 1.5);
  EXPECT_EQ(
      advice.headline,
      "Use allreduce: 2.5 times as fast as one worker, at 1.5 times its cost in core-seconds.");
  EXPECT_THAT(advice.warnings, IsEmpty());
}

TEST(AdviceTest, ALittleFasterAtTwiceTheCostIsNotWorthIt) {
  const Advice advice = adviseFrom(figuresFor({{"single", 1, 10, 10}, {"allreduce", 2, 9, 20}}), 8);
  EXPECT_EQ(advice.decision, "single-1");
  EXPECT_THAT(advice.headline, AllOf(HasSubstr("Use one worker"), HasSubstr("1.1 times as fast"),
                                     HasSubstr("2.0 times its cost")));
}

TEST(AdviceTest, ALittleFasterForTheSameCostIsWorthIt) {
  const Advice advice =
      adviseFrom(figuresFor({{"single", 1, 10, 10}, {"allreduce", 2, 9, 10.2}}), 8);
  EXPECT_EQ(advice.decision, "allreduce-2");
}

TEST(AdviceTest, NoiseIsATie) {
  // 20 % apart, but the runs of both lie among each other's.
  const Advice advice = adviseFrom(
      figuresFor({{"single", 1, 10, 10, 100, 0.3}, {"allreduce", 2, 8, 16, 120, 0.3}}), 8);
  EXPECT_EQ(advice.decision, "single-1");
  EXPECT_THAT(advice.headline, HasSubstr("can't be told from it"));
}

TEST(AdviceTest, AmongTiesThroughputThenCostThenPromiseDecides) {
  const Advice byRate = adviseFrom(
      figuresFor(
          {{"single", 1, 10, 10, 100}, {"allreduce", 2, 5, 10, 200}, {"hybrid", 2, 5.1, 10, 240}}),
      8);
  EXPECT_EQ(byRate.decision, "hybrid-2");
  EXPECT_THAT(byRate.ties, ElementsAre("allreduce-2"));
  const Advice byCost = adviseFrom(
      figuresFor(
          {{"single", 1, 10, 10, 100}, {"allreduce", 2, 5, 12, 200}, {"hybrid", 2, 5.1, 10, 200}}),
      8);
  EXPECT_EQ(byCost.decision, "hybrid-2");
  const Advice byPromise = adviseFrom(figuresFor({{"single", 1, 10, 10, 100},
                                                  {"ps-async", 2, 5, 10, 200},
                                                  {"allreduce", 2, 5.1, 10, 200}}),
                                      8);
  EXPECT_EQ(byPromise.decision, "allreduce-2");
}

TEST(AdviceTest, WithoutLossesThroughputCounts) {
  Figures figures = figuresFor({{"single", 1, 10, 10, 100}, {"allreduce", 2, 5, 10, 190}});
  for (Summary& summary : figures.summaries) summary.secondsToLoss = summary.coreSecondsToLoss = {};
  const Advice advice = adviseFrom(figures, 8);
  EXPECT_EQ(advice.measure, "throughput");
  EXPECT_EQ(advice.decision, "allreduce-2");
  EXPECT_NEAR(advice.speedup, 1.9, 1e-9);
}

TEST(AdviceTest, AStrategyThatMissesTheLossIsNotRecommended) {
  Figures figures = figuresFor({{"single", 1, 10, 10}, {"ps-async", 2, 1, 1, 900}});
  figures.summaries[1].secondsToLoss = {};
  figures.summaries[1].missedLoss = true;
  const Advice advice = adviseFrom(figures, 8);
  EXPECT_EQ(advice.decision, "single-1");
  EXPECT_THAT(advice.warnings, Contains(HasSubstr("did not come down to the loss")));
}

TEST(AdviceTest, WarnsOfWhatCannotBeConcluded) {
  Figures figures = figuresFor({{"single", 1, 10, 10}, {"allreduce", 4, 5, 10}});
  figures.summaries[1].oversubscribed = true;
  figures.summaries[1].failures = {"rank 1 was killed"};
  figures.otherCores = 1.5;
  const Advice advice = adviseFrom(figures, 2);
  EXPECT_THAT(advice.warnings,
              Contains(AllOf(HasSubstr("2 cores"), HasSubstr("oversubscribed by allreduce"))));
  EXPECT_THAT(advice.warnings,
              Contains(HasSubstr("1 of 4 runs of allreduce failed: rank 1 was killed")));
  EXPECT_THAT(advice.warnings, Contains(HasSubstr("Other programs kept 1.5 cores")));
}

TEST(AdviceTest, SaysSoWithoutABaseline) {
  Figures figures = figuresFor({{"single", 1, 10, 10}, {"allreduce", 2, 5, 10}});
  figures.summaries[0].done = 0;
  EXPECT_EQ(adviseFrom(figures, 8).decision, "");
  EXPECT_THAT(adviseFrom(figures, 8).headline, HasSubstr("no finished run with one worker"));
}

// The faster of one worker's variants is what more workers have to beat.
TEST(AdviceTest, TheFastestSingleWorkerIsTheBaseline) {
  Figures figures = figuresFor(
      {{"single", 1, 10, 10, 100}, {"single", 1, 2, 2, 500}, {"allreduce", 2, 5, 10, 200}});
  figures.summaries[1].variant.id = "single-1-thread";
  const Advice advice = adviseFrom(figures, 8);
  EXPECT_EQ(advice.decision, "single-1-thread");
  EXPECT_THAT(advice.headline, HasSubstr("is slower"));
}

TEST(AdviceTest, SingleRunsMustBeFurtherApart) {
  const Spread a{1.0, 1.0, 1.0, 1};
  EXPECT_FALSE(differ(a, {1.08, 1.08, 1.08, 1}));
  EXPECT_TRUE(differ(a, {1.2, 1.2, 1.2, 1}));
  EXPECT_TRUE(differ({1.0, 0.99, 1.01, 3}, {1.08, 1.07, 1.09, 3}));
}

}  // namespace
}  // namespace colla::study
