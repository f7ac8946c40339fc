// Flags of a training run, by what they do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "checkpoint/directory.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class FlagsTest : public ::testing::Test {
 protected:
  // Trains in a directory of its own, which it returns.
  std::string train(const std::string& model, const Words& words) {
    const std::string directory = scratch_.at("run" + std::to_string(runs_++));
    last_ = runProgram(joined({model, "--quiet", "--no-eval", "--threads", "1", "--keep", "all",
                               "--checkpoint-dir", directory},
                              words));
    EXPECT_EQ(last_.code, 0) << last_.err;
    return directory;
  }
  // One line, of a run that does not begin.
  std::string refused(const Words& words) {
    last_ = runProgram(words);
    EXPECT_EQ(last_.code, 2) << last_.err;
    EXPECT_EQ(std::ranges::count(last_.err, '\n'), 1) << last_.err;
    return last_.err;
  }
  static std::string optimizerOf(const std::string& directory) {
    const auto loaded = checkpoint::Directory(directory + "/checkpoints").loadNewest();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->manifest().optimizer : "";
  }

  const Scratch scratch_;
  int runs_ = 0;
  Ended last_;
};

TEST_F(FlagsTest, SaveSeconds) {
  const Words words = {"--steps", "4", "--save-seconds"};
  EXPECT_THAT(stepsIn(train("mlp", joined(words, {"1e-9"}))), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(stepsIn(train("mlp", joined(words, {"1000"}))), ElementsAre(0, 4));
}

// What one worker does in turn is what several do at once.
TEST_F(FlagsTest, AccumulatedGradientsAreThoseOfMoreWorkers) {
  const Words words = {"--steps", "5", "--batch", "50"};
  const std::string four = train("conv", joined(words, {"--np", "4"}));
  EXPECT_THAT(last_.err, HasSubstr("4 workers, 4 slices"));
  const std::string two = train("conv", joined(words, {"--np", "2", "--accumulate", "2"}));
  EXPECT_THAT(last_.err, HasSubstr("2 workers, 4 slices"));
  const std::string one = train("conv", joined(words, {"--accumulate", "4"}));
  EXPECT_THAT(last_.err, HasSubstr("1 worker, 4 slices"));
  EXPECT_EQ(differencesAt(four, two, 5), "");
  EXPECT_EQ(differencesAt(four, one, 5), "");
  EXPECT_NE(differencesAt(four, train("conv", words), 5), "");
}

TEST_F(FlagsTest, AccumulateIsTakenAtItsWord) {
  EXPECT_THAT(refused({"mlp", "--slices", "4", "--accumulate", "2"}),
              HasSubstr("give --slices (of all workers) or --accumulate (of one), not both"));
  EXPECT_THAT(refused({"mlp", "--accumulate", "0"}), HasSubstr("--accumulate is 0"));
  const std::string run = train("mlp", {"--steps", "1", "--accumulate", "4"});
  const Words resumed = {"mlp",         "--quiet", "--no-eval", "--steps",          "2",
                         "--resume",    "--np",    "2",         "--checkpoint-dir", run,
                         "--accumulate"};
  EXPECT_THAT(refused(joined(resumed, {"4"})), HasSubstr("slices was 4 and is 8"));
  const Ended ended = runProgram(joined(resumed, {"2"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("2 workers, 4 slices"));
}

TEST_F(FlagsTest, BatchPerWorker) {
  const std::string whole = train("mlp", {"--steps", "3", "--np", "2", "--batch", "50"});
  const std::string each = train("mlp", {"--steps", "3", "--np", "2", "--batch-per-worker", "25"});
  EXPECT_THAT(last_.err, HasSubstr("batch 50"));
  EXPECT_EQ(differencesAt(whole, each, 3), "");
  EXPECT_THAT(refused({"mlp", "--batch", "50", "--batch-per-worker", "25"}),
              HasSubstr("give --batch (of all workers) or --batch-per-worker, not both"));
}

// Of four steps, the first has a quarter of the rate.
TEST_F(FlagsTest, WarmupRaisesTheRate) {
  const Words words = {"--steps", "1", "--lr-schedule", "constant"};
  const std::string risen = train("halving", joined(words, {"--lr", "0.1", "--warmup", "4"}));
  EXPECT_EQ(differencesAt(risen, train("halving", joined(words, {"--lr", "0.025"})), 1), "");
  EXPECT_NE(differencesAt(risen, train("halving", joined(words, {"--lr", "0.1"})), 1), "");
  EXPECT_THAT(refused({"halving", "--warmup", "-1"}), HasSubstr("--warmup is -1"));
}

// The program's own schedule follows the warm-up, as one of --lr-schedule does.
TEST_F(FlagsTest, WarmupKeepsTheSchedule) {
  const Words words = {"--steps", "6", "--warmup", "2"};
  const std::string own = train("halving", words);
  EXPECT_THAT(optimizerOf(own), HasSubstr("lr-schedule step:2:0.5,warmup:2"));
  const std::string given = train("halving", joined(words, {"--lr-schedule", "step:2:0.5"}));
  EXPECT_EQ(differencesAt(own, given, 6), "");
  const std::string constant = train("halving", joined(words, {"--lr-schedule", "constant"}));
  EXPECT_NE(differencesAt(own, constant, 6), "");
}

// The numbers of the samples that a run of two epochs reads, by batch.
std::vector<std::string> readBy(const Words& words) {
  const Ended ended = runProgram(
      joined({"reader", "--quiet", "--no-eval", "--epochs", "2", "--batch", "3"}, words));
  EXPECT_EQ(ended.code, 0) << ended.err;
  std::istringstream lines(ended.out);
  std::vector<std::string> batches;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("samples ");  // Behind the worker's name, if there are several.
    if (at != std::string::npos) batches.push_back(line.substr(at + 8));
  }
  return batches;
}

TEST_F(FlagsTest, NoShuffleReadsInTheNaturalOrder) {
  EXPECT_THAT(readBy({"--no-shuffle"}), ElementsAre("0 1 2", "3 4 5", "0 1 2", "3 4 5"));
  EXPECT_THAT(readBy({"--no-shuffle", "--np", "2"}),
              UnorderedElementsAre("0 1", "2", "3 4", "5", "0 1", "2", "3 4", "5"));
  const auto shuffled = readBy({});
  ASSERT_EQ(shuffled.size(), 4);
  EXPECT_NE(shuffled, readBy({"--no-shuffle"}));
  std::string epoch = shuffled[0] + " " + shuffled[1];
  std::ranges::sort(epoch);
  EXPECT_EQ(epoch, "     012345");
}

// Each worker's run directory is in a folder of its own: what worker 1 wrote would be in its own.
TEST_F(FlagsTest, OneWorkerAloneWrites) {
  const std::string port = std::to_string(1024 + getpid() % 30000);
  const Words words = {"mlp",
                       "--steps",
                       "4",
                       "--save-every",
                       "1",
                       "--quiet",
                       "--threads",
                       "1",
                       "--json",
                       "steps.json",
                       "--worker_hosts",
                       "localhost:" + port + ",127.0.0.1:" + port,
                       "--job_name",
                       "worker",
                       "--checkpoint-dir",
                       "run",
                       "--task_index"};
  const auto at = [&](const std::string& folder) {
    std::filesystem::create_directory(scratch_.at(folder));
    launch::CollaProcess::Options options = programOptions();
    options.wrapper = "cd '" + scratch_.at(folder) + "' && exec \"$@\"";
    return options;
  };
  launch::CollaProcess second(joined(words, {"1"}), at("second"));
  launch::CollaProcess first(joined(words, {"0"}), at("first"));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_THAT(stepsIn(scratch_.at("first/run")), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_TRUE(std::filesystem::exists(scratch_.at("first/run/log.txt")));
  EXPECT_TRUE(std::filesystem::exists(scratch_.at("first/steps.json")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.at("second")));
}

TEST_F(FlagsTest, AnEvaluationRefusesFlagsOfATraining) {
  const std::string run = train("mlp", {"--steps", "1"});
  EXPECT_THAT(refused({"mlp", "--eval", "--checkpoint-dir", run, "--early-stop", "foo"}),
              HasSubstr("--eval trains nothing: leave --early-stop out"));
  EXPECT_THAT(refused({"mlp", "--eval", "--checkpoint-dir", run, "--lr", "3"}),
              HasSubstr("--eval trains nothing: leave --lr out"));
}

}  // namespace
}  // namespace colla::train
