#include "study/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "study/peers.h"

namespace colla::study {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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

TEST(PlanTest, AlternativesTryLessOfDataThatHasAName) {
  Options options = optionsFor({"allreduce"}, {2});
  options.alternatives = true;
  options.settings.data = "synthetic:mnist:600";
  const auto variants = variantsOf(options, {1}, 100);
  ASSERT_TRUE(variants.ok());
  EXPECT_THAT(idsOf(*variants),
              ElementsAre("single-1", "allreduce-2", "larger-batch", "bfloat16", "smaller-model",
                          "data-10", "data-30", "side-by-side-2"));
  EXPECT_THAT(commandOf(options.program, (*variants)[5], options.settings, 1, "").text(),
              HasSubstr("--data share:10%:synthetic:mnist:600 "));
}

TEST(PlanTest, PeersStandBesideWorkersAndAreNoStrategies) {
  Options options = optionsFor({"allreduce", "ps-async"}, {1, 3});
  options.program.words = {"lr"};
  options.batch = 100;
  options.batchPerWorker = true;
  options.peers = {"spark", "tf", "ddp"};
  ASSERT_TRUE(checkPeers(options).ok()) << checkPeers(options);
  const auto variants = variantsOf(options, {1}, 0);
  ASSERT_TRUE(variants.ok()) << variants.status();
  EXPECT_THAT(idsOf(*variants),
              ElementsAre("single-1", "allreduce-3", "ps-async-3", "spark-1", "tf-1", "tf-async-1",
                          "ddp-1", "spark-3", "tf-3", "tf-async-3", "ddp-3"));
  const Variant& tf = (*variants)[8];
  EXPECT_EQ(tf.purpose, Purpose::kPeer);
  EXPECT_EQ(tf.label, "TensorFlow sync, 3 workers");
  EXPECT_EQ(tf.batch, 300);
  EXPECT_EQ(tf.servers, 1);
  EXPECT_FALSE(tf.exact);
  EXPECT_EQ((*variants)[10].servers, 0);
  EXPECT_THAT(peersLeftOut(options), IsEmpty());
  // Spark's MLlib has no gradient descent for networks.
  options.program.words = {"mlp"};
  EXPECT_THAT(idsOf(*variantsOf(options, {1}, 0)), Not(Contains("spark-3")));
  EXPECT_THAT(peersLeftOut(options), ElementsAre(HasSubstr("Spark MLlib has no gradient descent")));
}

TEST(PlanTest, PeersThatCannotBeAreRefused) {
  const auto refusal = [](std::string model, std::vector<std::string> flags,
                          std::vector<std::string> peers) {
    Options options = optionsFor({"allreduce"}, {2});
    options.program.words = {std::move(model)};
    options.program.flags = std::move(flags);
    options.peers = std::move(peers);
    const Status status = checkPeers(options);
    return status.ok() ? std::string() : std::string(status.message());
  };
  EXPECT_EQ(refusal("snn", {"--lr", "0.5", "--optimizer", "sgd"}, {"ddp"}), "");
  EXPECT_EQ(refusal("deepfam", {"--filters", "9"}, {}), "");
  EXPECT_THAT(refusal("snn", {}, {"caffe"}),
              HasSubstr("there is no peer \"caffe\"; there are spark, tf"));
  EXPECT_THAT(refusal("snn", {}, {"tf", "tf"}), HasSubstr("tf is named twice"));
  EXPECT_THAT(refusal("deepfam", {}, {"tf"}),
              HasSubstr("--peers train lr, softmax, snn, mlp, and not"));
  EXPECT_THAT(refusal("snn", {"--hidden", "9"}, {"tf"}), HasSubstr("leave --hidden out"));
  EXPECT_THAT(refusal("snn", {"--optimizer", "adam"}, {"tf"}), HasSubstr("leave --optimizer out"));
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
