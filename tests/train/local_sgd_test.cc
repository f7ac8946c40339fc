// local-sgd as a user starts it: real processes, and what they leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "checkpoint/source.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalSgdTest : public ::testing::Test {
 protected:
  // Every batch has 48 samples, 12 a slice: all slices have the same weight.
  static Words evenRun(const std::string& model, const std::string& directory, const Words& more) {
    return joined({model, "--threads", "1", "--slices", "4", "--batch", "48", "--quiet",
                   "--checkpoint-dir", directory, "--no-eval"},
                  more);
  }

  // Trains in a directory of its own, which it returns.
  std::string train(const std::string& model, const Words& words) {
    const std::string directory = scratch_.at("run" + std::to_string(runs_++));
    const Ended ended = runProgram(evenRun(model, directory, words));
    EXPECT_EQ(ended.code, 0) << ended.err;
    return directory;
  }

  // The largest difference of a parameter, relative to the largest parameter of its tensor.
  static double farthest(const std::string& a, const std::string& b, int step) {
    const auto left = checkpoint::Source::open(a + "@" + std::to_string(step));
    const auto right = checkpoint::Source::open(b + "@" + std::to_string(step));
    EXPECT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
    double most = 0;
    for (std::size_t i = 0; i < left->items().size(); ++i) {
      const auto& mine = *left->items()[i].tensor;
      if (mine.type != DataType::kFloat32 || mine.name.find('/') != std::string::npos) continue;
      const auto floats = [](std::span<const std::byte> bytes) {
        return std::span(reinterpret_cast<const float*>(bytes.data()),
                         bytes.size() / sizeof(float));
      };
      const auto x = floats(mine.bytes);
      const auto y = floats(right->items()[i].tensor->bytes);
      double scale = 0;
      double difference = 0;
      for (std::size_t k = 0; k < x.size(); ++k) {
        scale = std::max<double>(scale, std::abs(x[k]));
        difference = std::max<double>(difference, std::abs(x[k] - y[k]));
      }
      if (scale > 0) most = std::max(most, difference / scale);
    }
    return most;
  }

  const Scratch scratch_;
  int runs_ = 0;
};

const Words kSgd = {"--optimizer", "sgd", "--lr", "0.05"};

// With an average in every step and plain SGD the mean of the parameters is where the mean of the
// gradients leads to.
TEST_F(LocalSgdTest, AveragingEveryStepIsAllreduceUpToRounding) {
  for (const std::string model : {"mlp", "table"}) {
    const Words steps = joined(kSgd, {"--steps", "12", "--np", "2"});
    const std::string allreduce = train(model, joined(steps, {"--strategy", "allreduce"}));
    const std::string local =
        train(model, joined(steps, {"--strategy", "local-sgd", "--every", "1"}));
    EXPECT_LT(farthest(allreduce, local, 12), 1e-5) << model;
    const std::string seldom =
        train(model, joined(steps, {"--strategy", "local-sgd", "--every", "4"}));
    EXPECT_GT(farthest(allreduce, seldom, 12), 1e-5) << model << ": the test can't tell";
  }
}

// Two runs have the same bits, and with a worker that has two of the four slices too.
TEST_F(LocalSgdTest, RunsRepeat) {
  for (const std::string workers : {"2", "3"}) {
    const Words words = {
        "--steps",      "10",    "--strategy", "local-sgd", "--every",          "4",
        "--np",         workers, "--outer-lr", "0.7",       "--outer-momentum", "0.9",
        "--save-every", "4",     "--keep",     "all"};
    const std::string once = train("conv", words);
    const std::string again = train("conv", words);
    // Steps 4 and 8 are averages; the last step is one, wherever it falls.
    EXPECT_THAT(stepsIn(once), ElementsAre(0, 4, 8, 10));
    for (const int step : {4, 8, 10}) EXPECT_EQ(differencesAt(once, again, step), "");
  }
}

// What is due between two averages waits for the next one.
TEST_F(LocalSgdTest, SavesWaitForAnAverage) {
  const std::string run = train("mlp", {"--steps", "9", "--strategy", "local-sgd", "--every", "4",
                                        "--np", "2", "--save-every", "3", "--keep", "all"});
  EXPECT_THAT(stepsIn(run), ElementsAre(0, 4, 8, 9));
}

// Plain SGD has no state that only one worker has: a resumed run repeats the straight one, with the
// outer optimizer's momentum.
TEST_F(LocalSgdTest, ResumesWithTheOuterMomentum) {
  const Words words = joined(kSgd, {"--strategy", "local-sgd", "--every", "3", "--np", "2",
                                    "--outer-lr", "0.7", "--outer-momentum", "0.9"});
  const std::string straight = train("table", joined(words, {"--steps", "12"}));
  const std::string resumed = train("table", joined(words, {"--steps", "6"}));
  const Ended ended =
      runProgram(evenRun("table", resumed, joined(words, {"--steps", "12", "--resume"})));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(differencesAt(straight, resumed, 12), "");
}

// An epoch has 13 batches, of which the last one leaves slices without samples. Its evaluation
// waits for the average after step 15.
TEST_F(LocalSgdTest, EvaluationsWaitForAnAverage) {
  const std::string json = scratch_.at("steps.json");
  const Ended ended = runProgram(smallRun(
      "mlp", scratch_.at("evaluated"),
      {"--epochs", "2", "--strategy", "local-sgd", "--every", "5", "--np", "2", "--json", json}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  std::vector<int> evaluated;
  std::ifstream file(json);
  int step = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"total\"") != std::string::npos) break;
    ++step;
    if (line.find("val_loss") != std::string::npos) evaluated.push_back(step);
  }
  EXPECT_THAT(evaluated, ElementsAre(15, 26));
}

TEST_F(LocalSgdTest, BadOptionsAreRefusedInOneLine) {
  const auto refused = [&](const Words& words) {
    const Ended ended = runProgram(joined({"mlp", "--steps", "2"}, words));
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(refused({"--every", "4", "--strategy", "allreduce", "--np", "2"}),
              HasSubstr("--every is for --strategy local-sgd, not allreduce"));
  EXPECT_THAT(refused({"--strategy", "local-sgd", "--every", "0"}),
              HasSubstr("--every is 0, but takes 1 or more"));
  EXPECT_THAT(refused({"--strategy", "local-sgd", "--outer-momentum", "1"}),
              HasSubstr("--outer-momentum is 1, but takes 0 to below 1"));
  EXPECT_THAT(refused({"--strategy", "local-sgd", "--outer-lr", "0"}),
              HasSubstr("--outer-lr is 0, but must be above 0"));
}

}  // namespace
}  // namespace colla::train
