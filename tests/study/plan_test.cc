#include "study/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace colla::study {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Options optionsFor(std::vector<std::string> strategies, std::vector<int> workers) {
  Options options;
  options.program.words = {"mlp"};
  options.strategies = std::move(strategies);
  options.workers = std::move(workers);
  options.alternatives = false;
  return options;
}

std::vector<std::string> idsOf(const std::vector<Variant>& variants) {
  std::vector<std::string> ids;
  for (const Variant& variant : variants) ids.push_back(variant.id);
  return ids;
}

const Probes kProbes = {
    {"single", {.startSeconds = 1, .stepSeconds = 0.01, .evaluationSeconds = 0.1, .batch = 100}}};

TEST(PlanTest, VariantsOfOptions) {
  const auto variants =
      variantsOf(optionsFor({"allreduce", "ps-ssp:staleness=3", "ps-async"}, {1, 2}), {4}, 100);
  ASSERT_TRUE(variants.ok()) << variants.status();
  EXPECT_THAT(idsOf(*variants), ElementsAre("single-1", "single-1-thread", "allreduce-2",
                                            "ps-ssp-staleness-3-2", "ps-async-2"));
  const Variant& allreduce = (*variants)[2];
  EXPECT_TRUE(allreduce.exact);
  EXPECT_EQ(allreduce.threads, 2);
  EXPECT_EQ(allreduce.slices, 2);
  EXPECT_EQ(allreduce.steps, 200);
  EXPECT_FALSE((*variants)[3].exact);
  EXPECT_THAT((*variants)[3].options, ElementsAre("--staleness", "3"));
  // As many samples: an update has those of one worker.
  EXPECT_EQ((*variants)[4].steps, 400);
  EXPECT_EQ((*variants)[4].servers, 1);
}

TEST(PlanTest, ABatchPerWorkerGrows) {
  Options options = optionsFor({"allreduce"}, {2, 3});
  options.batch = 50;
  options.batchPerWorker = true;
  const auto variants = variantsOf(options, {1}, 0);
  ASSERT_TRUE(variants.ok());
  EXPECT_EQ((*variants)[0].batch, 50);
  EXPECT_EQ((*variants)[1].batch, 100);
  EXPECT_EQ((*variants)[2].batch, 150);
}

TEST(PlanTest, TheSameTwiceIsRefused) {
  EXPECT_FALSE(variantsOf(optionsFor({"allreduce", "allreduce"}, {2}), {1}, 100).ok());
}

TEST(PlanTest, AlternativesKnowASmallerModel) {
  Options options = optionsFor({"allreduce"}, {2});
  options.alternatives = true;
  const auto variants = variantsOf(options, {2}, 100);
  ASSERT_TRUE(variants.ok());
  EXPECT_THAT(idsOf(*variants),
              ElementsAre("single-1", "single-1-thread", "allreduce-2", "larger-batch", "bfloat16",
                          "smaller-model", "side-by-side-2"));
  const Variant& smaller = (*variants)[5];
  EXPECT_THAT(commandOf(options.program, smaller, {}, 1, "").text(),
              HasSubstr("colla train snn --strategy single"));
}

TEST(PlanTest, RunsTakeTurns) {
  const auto variants = variantsOf(optionsFor({"allreduce"}, {2}), {1}, 100);
  const Plan plan = makePlan(*variants, kProbes, 2, 1e9);
  ASSERT_EQ(plan.runs.size(), 4u);
  EXPECT_EQ(plan.runs[0].variant, "single-1");
  EXPECT_EQ(plan.runs[1].variant, "allreduce-2");
  EXPECT_EQ(plan.runs[2].variant, "single-1");
  EXPECT_EQ(plan.runs[2].repeat, 1);
  EXPECT_THAT(plan.leftOut, IsEmpty());
  // Start, 200 steps, 11 evaluations.
  EXPECT_NEAR(plan.runs[0].seconds, 1 + 2 + 1.1, 1e-9);
}

TEST(PlanTest, ASmallBudgetLeavesOutWhatMattersLeast) {
  Options options = optionsFor({"allreduce", "ps-sync"}, {2, 4});
  options.alternatives = true;
  const auto variants = variantsOf(options, {1}, 100);
  ASSERT_TRUE(variants.ok());
  const double one = estimate((*variants)[0], kProbes);
  // Room for two runs of everything.
  double all = 0;
  for (const Variant& variant : *variants) all += estimate(variant, kProbes);
  const Plan fewer = makePlan(*variants, kProbes, 3, 2 * all);
  EXPECT_EQ(fewer.runs.size(), 2 * variants->size());
  EXPECT_THAT(fewer.leftOut, ElementsAre(HasSubstr("2 runs of each variant, not 3")));
  // No room for alternatives; then none for numbers of workers in between.
  const Plan strategies = makePlan(*variants, kProbes, 3, 10.5 * one);
  EXPECT_THAT(strategies.leftOut, Contains(HasSubstr("no room for alternatives")));
  EXPECT_EQ(strategies.variants.size(), 5u);
  const Plan most = makePlan(*variants, kProbes, 3, 6.5 * one);
  EXPECT_THAT(most.leftOut, Contains(HasSubstr("4 workers alone")));
  EXPECT_THAT(idsOf(most.variants), ElementsAre("single-1", "allreduce-4", "ps-sync-4"));
  // The baseline and one more stay, whatever the budget is.
  const Plan least = makePlan(*variants, kProbes, 3, 0.1);
  EXPECT_EQ(least.runs.size(), 2u);
  EXPECT_EQ(least.runs[0].variant, "single-1");
  EXPECT_THAT(least.leftOut, Contains(HasSubstr("more than the budget")));
}

}  // namespace
}  // namespace colla::study
