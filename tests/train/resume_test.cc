// Going on with a run: from where, as what, and what becomes of what is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "checkpoint/directory.h"
#include "support/checkpoints.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ResumeTest, RefusesToResumeAsSomethingElse) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  ASSERT_EQ(runProgram(smallRun("mlp", run, {"--steps", "2"})).code, 0);
  const auto resumed = [&](const std::string& model, const Words& more) {
    Words words = {model, "--quiet", "--checkpoint-dir", run, "--resume", "--steps", "3"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = runProgram(words);
    EXPECT_EQ(ended.code, model == "mlp" ? 2 : 1) << ended.err;
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(resumed("mlp", {"--slices", "2"}), HasSubstr("slices was 4 and is 2"));
  EXPECT_THAT(resumed("mlp", {"--slices", "2", "--np", "2"}), HasSubstr("slices was 4 and is 2"));
  EXPECT_THAT(resumed("mlp", {"--batch", "49"}), HasSubstr("global batch was 50 and is 49"));
  EXPECT_THAT(resumed("mlp", {"--seed", "7"}), HasSubstr("seed was 1 and is 7"));
  EXPECT_THAT(resumed("mlp", {"--threads", "2", "--np", "2"}), HasSubstr("threads was 1 and is 2"));
  EXPECT_THAT(resumed("mlp", {"--no-shuffle"}), HasSubstr("shuffle was true and is false"));
  EXPECT_THAT(resumed("conv", {"--np", "2"}), AllOf(HasSubstr("mlp"), HasSubstr("conv")));
  EXPECT_EQ(stepsIn(run).back(), 2);
  // With nothing said it is what it was.
  const Ended ended =
      runProgram({"mlp", "--quiet", "--checkpoint-dir", run, "--resume", "--steps", "3"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("4 slices, seed 1"));
  EXPECT_THAT(ended.err, Not(HasSubstr("resuming with")));
  EXPECT_EQ(stepsIn(run).back(), 3);
  // What may differ is told.
  const Ended other =
      runProgram({"mlp", "--quiet", "--checkpoint-dir", run, "--resume", "--steps", "4",
                  "--no-eval", "--clip-norm", "1.5", "--lr-schedule", "step:2:0.5", "--scale-lr"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, AllOf(HasSubstr("resuming with another optimizer: optimizer was adam "
                                         "lr=0.001 "),
                               HasSubstr("is adam lr=0.004 "), HasSubstr(", clip-norm 1.5, "),
                               HasSubstr("lr-schedule step:2:0.5")));
}

// Threads are part of what a run is, and processes that go on with it get them, not a share of the
// cores.
TEST(ResumeTest, AResumedRunHasTheThreadsThatItHad) {
  const Scratch scratch;
  const Words run = {"mlp", "--quiet",          "--no-eval",      "--slices",
                     "2",   "--checkpoint-dir", scratch.at("run")};
  ASSERT_EQ(runProgram(joined(run, {"--steps", "1", "--threads", "3"})).code, 0);
  const Ended ended = runProgram(joined(run, {"--steps", "2", "--np", "2", "--resume"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("2 workers, 2 slices, seed 1, 3 threads per slice"));
}

TEST(ResumeTest, ANewRunDoesNotMixWithAnother) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  ASSERT_EQ(runProgram(smallRun("mlp", run, {"--steps", "2", "--no-eval"})).code, 0);
  for (const char* workers : {"1", "2"}) {
    const Ended ended = runProgram(smallRun("mlp", run, {"--steps", "1", "--np", workers}));
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(ended.err, HasSubstr(run + " has checkpoints up to step 2 of another run: --resume "
                                           "goes on with it, or choose another --checkpoint-dir"));
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
  }
  EXPECT_EQ(stepsIn(run), (std::vector<std::int64_t>{0, 2}));
}

std::string lastRowOf(const std::string& run) {
  const std::string text = readText(run + "/log.txt");
  return text.substr(text.rfind('\n', text.size() - 2) + 1);
}

// Contract: what a run that goes on from an earlier step leaves behind is neither taken for its own
// nor lost; log.txt and checkpoints tell of the same steps.
TEST(ResumeTest, FromAnEarlierStepIsTheRunFromThenOn) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  const std::string other = scratch.at("other");
  const std::string aside = run + "/checkpoints/set-aside-1";
  const Words more = {"--no-eval", "--save-every", "2"};
  const auto train = [&](const std::string& directory, const Words& words) {
    const Ended ended = runProgram(smallRun("mlp", directory, joined(more, words)));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.err;
  };
  for (const std::string& directory : {run, other}) train(directory, {"--steps", "6"});
  EXPECT_THAT(train(other, {"--resume", "2", "--steps", "5", "--lr", "0.1", "--keep", "2"}),
              HasSubstr("checkpoints of steps after 2 were moved to " + other));
  EXPECT_THAT(stepsIn(other), ElementsAre(4, 5));

  EXPECT_THAT(train(run, {"--resume", "2", "--steps", "4", "--lr", "0.1"}),
              HasSubstr("checkpoints of steps after 2 were moved to " + aside));
  EXPECT_THAT(stepsIn(run), ElementsAre(0, 2, 4));
  EXPECT_THAT(lastRowOf(run), StartsWith("4\t"));
  EXPECT_THAT(*checkpoint::Directory(aside).list(), ElementsAre(4, 6));
  EXPECT_THAT(train(run, {"--resume", "--steps", "5", "--lr", "0.1", "--np", "2"}),
              AllOf(HasSubstr("resuming from step 4"), Not(HasSubstr("were moved"))));
  EXPECT_THAT(lastRowOf(run), StartsWith("5\t"));
  EXPECT_EQ(differencesAt(run, other, 5), "");
  EXPECT_EQ(differencesAt(aside, other + "/checkpoints/set-aside-1", 6), "");
}

// Before it has saved anything.
TEST(ResumeTest, FromAnEarlierStepAndKilled) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  const Words more = {"--no-eval", "--save-every", "2"};
  ASSERT_EQ(runProgram(smallRun("mlp", run, joined(more, {"--steps", "4"}))).code, 0);
  {
    launch::CollaProcess process(
        smallRun("mlp", run, {"--no-eval", "--resume", "2", "--steps", "1000000"}),
        programOptions());
    ASSERT_TRUE(process.complains("were moved to")) << process.err();
    ASSERT_EQ(kill(process.pid(), SIGKILL), 0);
    EXPECT_EQ(process.wait(), -SIGKILL);
  }
  EXPECT_THAT(stepsIn(run), ElementsAre(0, 2));
  const Ended ended = runProgram(smallRun("mlp", run, joined(more, {"--resume", "--steps", "4"})));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("resuming from step 2"));
  EXPECT_EQ(differencesAt(run + "/checkpoints", run + "/checkpoints/set-aside-1", 4), "");
}

}  // namespace
}  // namespace colla::train
