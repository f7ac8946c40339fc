// Groups of parameters and optimizers of a program's own: the same bits under the strategies that
// promise it, saved, resumed and scheduled; or refused once, before any worker starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/directory.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OptimizerTest : public ::testing::Test {
 protected:
  Ended run(const std::string& model, const std::string& name, const Words& words) {
    return runProgram(joined(smallRun(model, scratch_.at(name), {"--no-eval"}), words));
  }
  std::string train(const std::string& model, const std::string& name, const Words& words) {
    const Ended ended = run(model, name, words);
    EXPECT_EQ(ended.code, 0) << model << ": " << ended.err;
    return scratch_.at(name);
  }
  // Refused in one line.
  std::string refused(const std::string& model, const Words& words) {
    const Ended ended = run(model, "refused", words);
    EXPECT_NE(ended.code, 0);
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    return ended.err;
  }

  const Scratch scratch_;
};

class GroupsTest : public OptimizerTest, public ::testing::WithParamInterface<std::string> {};

// Groups at random: options and optimizers of their own, with and without slots, and frozen ones.
// The 13th step has slices of one sample, which the model's BatchNorm can't normalize.
TEST_P(GroupsTest, HaveTheSameBitsUnderEveryStrategyThatPromisesIt) {
  const Words how = {"--clip-norm", "1.5", "--lr-schedule", "step:3:0.5"};
  const Words common = joined(how, {"--steps", "12", "--save-every", "1", "--keep", "all"});
  const std::string single = train(GetParam(), "single", joined(common, {"--strategy", "single"}));
  ASSERT_THAT(differences(single + "@1", single + "@2"), HasSubstr("out.weight"))
      << "a run that stands still proves nothing";
  const std::vector<Words> others = {{"--strategy", "mirrored", "--np", "2"},
                                     {"--strategy", "allreduce", "--np", "3"},
                                     {"--strategy", "ps-sync", "--np", "3", "--ps", "2"},
                                     {"--strategy", "ps-ssp", "--np", "2", "--staleness", "0"},
                                     {"--strategy", "hybrid", "--np", "2", "--ps", "2"}};
  for (const Words& words : others) {
    const std::string other = train(GetParam(), words[1], joined(common, words));
    for (int step = 0; step <= 12; ++step) {
      ASSERT_EQ(differencesAt(single, other, step), "") << ::testing::PrintToString(words);
    }
  }
  // On from the middle, with servers after workers and the other way round.
  for (const auto& [before, after] :
       {std::pair(others[4], others[2]), std::pair(others[2], others[4])}) {
    const std::string name = before[1] + " first";
    train(GetParam(), name, joined(joined(how, {"--steps", "7"}), before));
    train(GetParam(), name, joined(joined(how, {"--steps", "12", "--resume"}), after));
    EXPECT_EQ(differencesAt(single, scratch_.at(name), 12), "") << ::testing::PrintToString(after);
  }
}

INSTANTIATE_TEST_SUITE_P(Random, GroupsTest, ::testing::Values("groups1", "groups2"));

TEST_F(OptimizerTest, GroupsThatDoNotFitTheModelAreRefusedBeforeAnyWorkerStarts) {
  const std::string nothing =
      "group \"haed.*\" has no parameter: those that the model trains are table.weight, "
      "hidden.weight, hidden.bias, norm.weight";
  const std::string overlap = "parameter \"out.bias\" is in two groups, \"out.*\" and \"*.bias\"";
  for (const Words& how : {Words{"--np", "2"}, Words{"--strategy", "ps-sync", "--np", "2"}}) {
    EXPECT_THAT(refused("groups-nothing", how), HasSubstr(nothing));
    EXPECT_THAT(refused("groups-overlap", how), HasSubstr(overlap));
  }
  // Threads, who find out themselves.
  const Ended ended = run("groups-overlap", "x", {"--strategy", "mirrored", "--np", "2"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr(overlap));
}

TEST_F(OptimizerTest, ACheckpointKeepsTheGroups) {
  const std::string directory = train("groups1", "run", {"--steps", "1"});
  const auto manifest = checkpoint::Directory(directory + "/checkpoints").manifest(1);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_THAT(manifest->optimizer, AllOf(HasSubstr("adam lr=0.001"), HasSubstr(", \"out.*\":")));
}

// A class around others, whose state libtorch does not see.
TEST_F(OptimizerTest, OneThatCannotBeSavedOrScheduledIsRefusedBeforeAnyWorkerStarts) {
  const Words two = {"--strategy", "allreduce", "--np", "2", "--steps", "2"};
  EXPECT_THAT(
      refused("both", two),
      AllOf(HasSubstr("the optimizer \"both\" can't be saved: after a restore"),
            HasSubstr("changes \"hidden.weight\" differently"), HasSubstr("colla::OwnOptimizer")));
  EXPECT_THAT(refused("forgetful", two), HasSubstr("the optimizer \"forgetful\" can't be saved"));
  // What is lost shows in the fifth step.
  EXPECT_THAT(refused("lookahead", two), HasSubstr("the optimizer \"lookahead\" can't be saved"));
  const Words unsaved = {"both",      "--threads",  "1",         "--slices", "2", "--steps", "2",
                         "--no-eval", "--strategy", "allreduce", "--np",     "2", "--quiet"};
  const Ended scheduled = runProgram(joined(unsaved, {"--lr-schedule", "step:1:0.5"}));
  EXPECT_NE(scheduled.code, 0);
  EXPECT_THAT(scheduled.err,
              HasSubstr("the optimizer \"both\" ignores the learning-rate schedule"));
  EXPECT_EQ(std::ranges::count(scheduled.err, '\n'), 1) << scheduled.err;
  // A run that needs neither may have it.
  const Ended plain = runProgram(unsaved);
  EXPECT_EQ(plain.code, 0) << plain.err;
  // One worker, who finds out itself.
  EXPECT_THAT(run("both", "one", {"--steps", "2"}).err, HasSubstr("\"both\" can't be saved"));
}

// The first steps of one that collects gradients move nothing, whatever the rate is.
TEST_F(OptimizerTest, AScheduleThatShowsInALaterStepIsTried) {
  const Ended ended = runProgram({"collecting", "--threads", "1", "--no-eval", "--quiet", "--steps",
                                  "2", "--lr-schedule", "step:1:0.5"});
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.err,
              HasSubstr("the optimizer \"collecting\" ignores the learning-rate schedule"));
}

// Worker 0 alone tries an optimizer: what that draws is drawn again.
TEST_F(OptimizerTest, ATrialLeavesTheGeneratorAsItWas) {
  const std::string one = train("drawing", "one", {"--steps", "4"});
  const std::string two = train("drawing", "two", {"--steps", "4", "--np", "2"});
  EXPECT_EQ(differencesAt(one, two, 4), "");
}

// By the interface for it: several of libtorch's in one, and one written from nothing.
TEST_F(OptimizerTest, OnesOwnIsSavedResumedAndScheduled) {
  const Words scheduled = {"--lr-schedule", "step:2:0.5", "--warmup", "2"};
  for (const std::string model : {"both-own", "noisy"}) {
    const std::string whole = train(model, model, joined(scheduled, {"--steps", "8"}));
    const std::string constant = train(model, model + "-constant", {"--steps", "8"});
    EXPECT_NE(differencesAt(whole, constant, 8), "") << "the schedule changes nothing";
    train(model, model + "-parts",
          joined(scheduled, {"--steps", "3", "--strategy", "allreduce", "--np", "2"}));
    train(model, model + "-parts",
          joined(scheduled, {"--steps", "8", "--resume", "--strategy", "mirrored", "--np", "3"}));
    EXPECT_EQ(differencesAt(whole, scratch_.at(model + "-parts"), 8), "") << model;
  }
}

// The state has the rate of the step that it was saved after, which is not that of the next one.
TEST_F(OptimizerTest, AScheduleReachesARestoredOptimizer) {
  const Words warmup = {"--warmup", "2"};
  const std::string whole = train("noisy", "whole", joined(warmup, {"--steps", "3"}));
  train("noisy", "parts", joined(warmup, {"--steps", "1"}));
  train("noisy", "parts", joined(warmup, {"--steps", "3", "--resume"}));
  EXPECT_EQ(differencesAt(whole, scratch_.at("parts"), 3), "");
}

}  // namespace
}  // namespace colla::train
