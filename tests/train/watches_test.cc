// What a run makes of its evaluations, and hooks that end it: under every strategy, resumed too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/source.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// No loss is lower by 10 than the first one: every evaluation after it is a plateau.
const Words kPlateaus = {"--eval-every", "3", "--lr-schedule", "plateau:loss:1:0.5:10"};

struct Way {
  std::string name;
  Words words;
  bool inStep = true;
  bool sameBits = true;
};

class StopTest : public ::testing::TestWithParam<Way> {
 protected:
  const Scratch scratch_;
  const std::string run_ = scratch_.at("run");
};

// Contract: a hook sees every evaluation and can end the run; all workers leave together with exit
// code 0, the last step is saved, the best one is marked, and the learning rate has fallen, with
// the bits of a single process where these are promised.
TEST_P(StopTest, AHookEndsTheRun) {
  const Way& way = GetParam();
  const Words words = joined(kPlateaus, {"--steps", "1000000", "--keep-best", "loss"});
  const Ended ended =
      runProgram(smallRun("table+stops-after-evaluation", run_, joined(words, way.words)));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::int64_t last = stepsIn(run_).back();
  EXPECT_THAT(ended.err,
              HasSubstr("the run stops after step " + std::to_string(last) + ": this is enough"));
  EXPECT_TRUE(checkpoint::Source::open(run_ + "@best").ok());
  if (!way.inStep) {
    EXPECT_GE(last, 9);
    return;
  }
  EXPECT_EQ(last, 9);
  EXPECT_THAT(ended.err, HasSubstr("1 evaluation brought no better loss than"));
  EXPECT_THAT(ended.out, HasSubstr("evaluated 3\nevaluated 6\nevaluated 9\n"));
  if (!way.sameBits) return;
  const std::string single = scratch_.at("single");
  ASSERT_EQ(runProgram(smallRun("table", single, joined(kPlateaus, {"--steps", "9"}))).code, 0);
  EXPECT_EQ(differencesAt(run_, single, 9), "");
}

// Contract: so does --early-stop, and it stays so. Accuracy can't rise by 1: the second evaluation
// after the first is the last one.
TEST_P(StopTest, EarlyStopEndsTheRun) {
  const Way& way = GetParam();
  const Words words = {"--steps", "1000000",      "--eval-every",
                       "3",       "--early-stop", "val_accuracy:2:1"};
  const Ended ended = runProgram(smallRun("table", run_, joined(words, way.words)));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr(": 2 evaluations brought no better accuracy than"));
  const std::vector<std::int64_t> saved = stepsIn(run_);
  if (way.inStep) {
    EXPECT_THAT(saved, ElementsAre(0, 9));
  } else {
    EXPECT_GE(saved.back(), 9);
  }
  const Ended again =
      runProgram(smallRun("table", run_, joined(joined(words, {"--resume"}), way.words)));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(stepsIn(run_), saved);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, StopTest,
    testing::Values(
        Way{"single", {"--strategy", "single"}},
        Way{"mirrored", {"--strategy", "mirrored", "--np", "2"}},
        Way{"allreduce", {"--strategy", "allreduce", "--np", "2"}},
        Way{"sync", {"--strategy", "ps-sync", "--np", "2"}},
        Way{"backup", {"--strategy", "ps-sync", "--np", "3", "--backup", "1"}, false, false},
        Way{"hybrid", {"--strategy", "hybrid", "--np", "2"}},
        Way{"local", {"--strategy", "local-sgd", "--every", "3", "--np", "2"}, true, false},
        Way{"async", {"--strategy", "ps-async", "--np", "2"}, false, false},
        Way{"ssp", {"--strategy", "ps-ssp", "--staleness", "1", "--np", "2"}, false, false}),
    [](const auto& test) { return test.param.name; });

// The step that the others are in is finished first.
TEST(WatchesTest, AHookEndsTheRunAfterAStep) {
  const Scratch scratch;
  for (const Words& how : {Words{"--np", "1"}, Words{"--np", "2"}}) {
    const std::string run = scratch.at(how[1]);
    const Ended ended =
        runProgram(smallRun("mlp+stops-after-step", run, joined({"--epochs", "9"}, how)));
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("the run stops after step 5: this is enough"));
    EXPECT_EQ(stepsIn(run).back(), 5);
  }
  EXPECT_EQ(differencesAt(scratch.at("1"), scratch.at("2"), 5), "");
}

// Contract: a plateau halves the rate as a lower --lr does, and a run that was interrupted where an
// evaluation was due goes on as the whole one.
TEST(WatchesTest, PlateausAreSavedAndAnEvaluationThatIsOwedIsMadeUpFor) {
  const Scratch scratch;
  const std::string whole = scratch.at("whole");
  const auto train = [](const std::string& model, const std::string& run, const Words& words) {
    return runProgram(smallRun(model, run, words));
  };
  const Words every = joined(kPlateaus, {"--save-every", "1", "--keep", "all"});
  ASSERT_EQ(train("mlp", whole, joined(every, {"--steps", "12"})).code, 0);

  const std::string halved = scratch.at("halved");
  ASSERT_EQ(train("mlp", halved, {"--no-eval", "--steps", "6"}).code, 0);
  EXPECT_EQ(differencesAt(whole, halved, 6), "");
  ASSERT_EQ(train("mlp", halved, {"--no-eval", "--steps", "9", "--resume", "--lr", "5e-4"}).code,
            0);
  EXPECT_EQ(differencesAt(whole, halved, 9), "");

  const std::string cut = scratch.at("cut");
  EXPECT_EQ(train("mlp+interrupted-in-step-6", cut, joined(kPlateaus, {"--steps", "12"})).code,
            130);
  EXPECT_EQ(stepsIn(cut).back(), 6);
  const Ended resumed =
      train("mlp", cut, joined(kPlateaus, {"--steps", "12", "--resume", "--np", "2"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr("step 6 - val_loss"), HasSubstr("multiplied by 0.5"),
                                 HasSubstr("multiplied by 0.25")));
  EXPECT_EQ(differencesAt(whole, cut, 12), "");
}

// Accuracy can't rise by 1: the run ends with the first evaluation but one.
TEST(WatchesTest, EarlyStopEndsTheRunAndStaysSo) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  const Words words = {"--steps", "1000000",      "--eval-every",
                       "2",       "--early-stop", "val_accuracy:2:1"};
  const Ended ended = runProgram(smallRun("mlp", run, joined(words, {"--np", "2"})));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the run stops after step 6: 2 evaluations brought no better "
                                   "accuracy than"));
  EXPECT_THAT(stepsIn(run), ElementsAre(0, 6));
  const Ended again = runProgram(smallRun("mlp", run, joined(words, {"--resume"})));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("the run stops after step 6"));
  EXPECT_THAT(stepsIn(run), ElementsAre(0, 6));
  // Without the flag it goes on.
  ASSERT_EQ(runProgram(smallRun("mlp", run, {"--no-eval", "--resume", "--steps", "7"})).code, 0);
  EXPECT_THAT(stepsIn(run), ElementsAre(0, 6, 7));
}

TEST(WatchesTest, TheBestCheckpointStays) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  const Words best = {"--eval-every", "3", "--keep", "1", "--keep-best", "loss"};
  ASSERT_EQ(runProgram(smallRun("mlp", run, joined(best, {"--steps", "6"}))).code, 0);
  const auto step = [&] {
    const auto found = checkpoint::splitStep(run + "@best");
    return found.ok() ? *found->step : -1;
  };
  EXPECT_EQ(step(), 6);
  ASSERT_EQ(
      runProgram(smallRun("mlp", run, {"--no-eval", "--keep", "1", "--resume", "--steps", "8"}))
          .code,
      0);
  EXPECT_THAT(stepsIn(run), ElementsAre(6, 8));
  EXPECT_EQ(step(), 6);
  // A run that goes on with it beats it.
  ASSERT_EQ(runProgram(smallRun("mlp", run, joined(best, {"--resume", "8", "--steps", "12"}))).code,
            0);
  EXPECT_EQ(step(), 12);
}

TEST(WatchesTest, WrongOnesAreRefused) {
  const auto refused = [](const Words& words) {
    const Ended ended = runProgram(joined({"mlp", "--quiet"}, words));
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(refused({"--save-every", "5"}), HasSubstr("--save-every needs --checkpoint-dir"));
  EXPECT_THAT(refused({"--save-seconds", "5"}), HasSubstr("--save-seconds needs --checkpoint-dir"));
  EXPECT_THAT(refused({"--keep", "5"}), HasSubstr("--keep needs --checkpoint-dir"));
  EXPECT_THAT(refused({"--keep-best", "loss"}), HasSubstr("--keep-best needs --checkpoint-dir"));
  EXPECT_THAT(refused({"--keep", "0", "--checkpoint-dir", "x"}),
              HasSubstr("--keep is \"0\", but takes a number, 1 or more, or all"));
  // Otherwise a new run would begin in a directory of this name.
  const Scratch scratch;
  for (const Words& how : {Words{}, Words{"--resume"}, Words{"--eval"}}) {
    const std::string best = scratch.at("run@best");
    EXPECT_THAT(refused(joined({"--checkpoint-dir", best}, how)), HasSubstr(scratch.at("run")));
    EXPECT_FALSE(std::filesystem::exists(best));
  }
  EXPECT_THAT(refused({"--early-stop", "loss:0"}), HasSubstr("a number of evaluations, 1 or more"));
  EXPECT_THAT(refused({"--early-stop", "loss:1:2:3"}), HasSubstr("METRIC[:PATIENCE[:MIN-DELTA]]"));
  EXPECT_THAT(refused({"--early-stop", "loss:2:inf"}), HasSubstr("a number, 0 or more"));
  EXPECT_THAT(refused({"--early-stop", ""}), HasSubstr("METRIC[:PATIENCE[:MIN-DELTA]]"));
  EXPECT_THAT(refused({"--keep-best", "", "--checkpoint-dir", "x"}),
              HasSubstr("--keep-best is \"\", but takes loss or a metric"));
  EXPECT_THAT(refused({"--early-stop", "loss", "--no-eval"}), HasSubstr("leave --no-eval out"));
  EXPECT_THAT(refused({"--lr-schedule", "plateau:loss:1:0.5", "--no-eval"}),
              HasSubstr("leave --no-eval out"));
  EXPECT_THAT(refused({"--lr-schedule", "plateau:loss:1:2"}), HasSubstr("above 0 and below 1"));
  EXPECT_THAT(
      refused({"--early-stop", "recall"}),
      HasSubstr("--early-stop: the model has no metric \"recall\"; there is loss, accuracy"));
  // Once, before any worker starts.
  for (const std::string strategy : {"allreduce", "ps-sync"}) {
    EXPECT_THAT(refused({"--early-stop", "acuracy", "--np", "2", "--strategy", strategy}),
                MatchesRegex("[^\n]*train_program: --early-stop: the model has no metric "
                             "\"acuracy\"; there is loss, accuracy; did you mean accuracy.\n"));
  }
}

}  // namespace
}  // namespace colla::train
