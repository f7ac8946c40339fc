// The promise: parameters, buffers and optimizer state of every step are equal in every bit,
// whatever the strategy and the number of workers, also across a resume.
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/source.h"
#include "train/runs.h"

namespace colla::train {
namespace {

Words under(const std::string& strategy, int workers) {
  return {"--strategy", strategy, "--np", std::to_string(workers)};
}

std::string stateOf(const std::string& directory, int step) {
  const auto source = checkpoint::Source::open(directory + "@" + std::to_string(step));
  EXPECT_TRUE(source.ok()) << source.status();
  std::string bytes;
  for (const auto& item : source->items()) {
    bytes.append(reinterpret_cast<const char*>(item.tensor->bytes.data()),
                 item.tensor->bytes.size());
  }
  return bytes;
}

// Dropout and a layer without gradients; BatchNorm, a constant buffer and one of whole numbers that
// depends on the samples; an LSTM with dropout and an optimizer of torch::optim.
class SameBitsTest : public testing::TestWithParam<std::string> {};

TEST_P(SameBitsTest, InEveryStepUnderEveryStrategy) {
  constexpr int kSteps = 20;
  const Scratch scratch;
  const Words common = {"--steps", std::to_string(kSteps), "--save-every", "1",        "--keep",
                        "all",     "--clip-norm",          "1.5",          "--no-eval"};
  const auto train = [&](const std::string& strategy, int workers) {
    const std::string directory = scratch.at(strategy + std::to_string(workers));
    const Ended ended =
        runProgram(joined(smallRun(GetParam(), directory, common), under(strategy, workers)));
    EXPECT_EQ(ended.code, 0) << strategy << " " << workers << ": " << ended.err;
    return directory;
  };
  const std::string single = train("single", 1);
  ASSERT_NE(stateOf(single, 1), stateOf(single, 2)) << "a run that stands still proves nothing";

  const std::vector<std::pair<std::string, int>> others = {{"mirrored", 2},  {"mirrored", 4},
                                                           {"allreduce", 1}, {"allreduce", 2},
                                                           {"allreduce", 3}, {"allreduce", 4}};
  for (const auto& [strategy, workers] : others) {
    const std::string other = train(strategy, workers);
    for (int step = 0; step <= kSteps; ++step) {
      ASSERT_EQ(differencesAt(single, other, step), "") << strategy << " " << workers;
    }
  }
}

// 10 steps, then 10 more under another strategy: the same as 20 at once.
TEST_P(SameBitsTest, AcrossAResumeUnderAnotherStrategy) {
  const Scratch scratch;
  const auto run = [&](const std::string& directory, const Words& more) {
    const Ended ended = runProgram(joined(smallRun(GetParam(), directory, {"--no-eval"}), more));
    EXPECT_EQ(ended.code, 0) << ended.err;
  };
  run(scratch.at("whole"), joined({"--steps", "20"}, under("single", 1)));
  const std::vector<std::pair<Words, Words>> pairs = {{under("single", 1), under("allreduce", 3)},
                                                      {under("allreduce", 2), under("mirrored", 4)},
                                                      {under("mirrored", 2), under("single", 1)}};
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string directory = scratch.at("parts" + std::to_string(i));
    run(directory, joined({"--steps", "10"}, pairs[i].first));
    run(directory, joined({"--steps", "20", "--resume"}, pairs[i].second));
    EXPECT_EQ(differencesAt(scratch.at("whole"), directory, 20), "") << "pair " << i;
  }
}

// Some workers have no sample in the 13th step, and so start no bucket while others do. The program
// looks at where its tensors start.
TEST(BucketsTest, SameBitsWithSeveralBucketsAndEmptySlices) {
  const Scratch scratch;
  const auto train = [&](const std::string& strategy, int workers) {
    const std::string directory = scratch.at(strategy + std::to_string(workers));
    const Ended ended = runProgram(joined(
        smallRun("wide", directory, {"--steps", "14", "--no-eval"}), under(strategy, workers)));
    EXPECT_EQ(ended.code, 0) << strategy << " " << workers << ": " << ended.err;
    return directory;
  };
  const std::string single = train("single", 1);
  EXPECT_EQ(differencesAt(single, train("allreduce", 2), 14), "");
  EXPECT_EQ(differencesAt(single, train("allreduce", 4), 14), "");
  EXPECT_EQ(differencesAt(single, train("mirrored", 3), 14), "");
}

// Replicas in threads share libtorch's memory of what it has cast, if they let it have one.
TEST(BFloat16Test, SameBitsWithALayerUsedTwice) {
  const Scratch scratch;
  const auto train = [&](const std::string& strategy, int workers) {
    const std::string directory = scratch.at(strategy + std::to_string(workers));
    const Ended ended = runProgram(
        joined(smallRun("twice", directory, {"--steps", "20", "--no-eval", "--bfloat16"}),
               under(strategy, workers)));
    return std::pair(directory, ended);
  };
  const auto [single, first] = train("single", 1);
  if (first.err.find("--bfloat16 needs a CPU") != std::string::npos) GTEST_SKIP() << first.err;
  ASSERT_EQ(first.code, 0) << first.err;
  const std::vector<std::pair<std::string, int>> others = {
      {"mirrored", 2}, {"mirrored", 4}, {"allreduce", 2}};
  for (const auto& [strategy, workers] : others) {
    const auto [directory, ended] = train(strategy, workers);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(differencesAt(single, directory, 20), "") << strategy << " " << workers;
  }
  // It is not what float32 gives, and a run that began so goes on so.
  const Ended plain = runProgram(smallRun("twice", scratch.at("plain"), {"--steps", "20"}));
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_NE(differencesAt(single, scratch.at("plain"), 20), "");
  const Ended other = runProgram(
      smallRun("twice", scratch.at("plain"), {"--steps", "21", "--resume", "--bfloat16"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("bfloat16 was false and is true"), std::string::npos) << other.err;
  const Ended more = runProgram(smallRun("twice", single, {"--steps", "21", "--resume"}));
  EXPECT_EQ(more.code, 0);
  EXPECT_NE(more.err.find("bfloat16, resuming from step 20"), std::string::npos) << more.err;
}

// A torch::optim class of the program's own, with state of its own.
TEST(OwnOptimizerTest, SameBitsAcrossAResumeUnderAnotherStrategy) {
  const Scratch scratch;
  const auto run = [&](const std::string& directory, const Words& more) {
    const Ended ended = runProgram(joined(smallRun("signs", directory, {"--no-eval"}), more));
    EXPECT_EQ(ended.code, 0) << ended.err;
  };
  run(scratch.at("whole"), {"--steps", "6"});
  run(scratch.at("parts"), joined({"--steps", "3"}, under("mirrored", 2)));
  EXPECT_NE(stateOf(scratch.at("parts"), 0), stateOf(scratch.at("parts"), 3));
  run(scratch.at("parts"), joined({"--steps", "6", "--resume"}, under("allreduce", 2)));
  EXPECT_EQ(differencesAt(scratch.at("whole"), scratch.at("parts"), 6), "");
}

// Each worker started by itself, the chief last.
TEST(ListsTest, SameBitsWithoutALauncher) {
  const Scratch scratch;
  const Words common = {"--steps", "6", "--no-eval"};
  EXPECT_EQ(runProgram(smallRun("mlp", scratch.at("single"), common)).code, 0);
  // The ports only tell this job from others.
  const std::string port = std::to_string(1024 + getpid() % 30000);
  const Words lists = joined(common, {"--worker_hosts", "localhost:" + port + ",127.0.0.1:" + port,
                                      "--job_name", "worker", "--task_index"});
  launch::CollaProcess second(smallRun("mlp", scratch.at("lists"), joined(lists, {"1"})),
                              programOptions());
  const Ended chief = runProgram(smallRun("mlp", scratch.at("lists"), joined(lists, {"0"})));
  EXPECT_EQ(chief.code, 0) << chief.err;
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(differencesAt(scratch.at("single"), scratch.at("lists"), 6), "");

  const Ended wrong = runProgram(smallRun("mlp", scratch.at("lists"), joined(lists, {"2"})));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("task_index is \"2\", but must be from 0 to 1"), std::string::npos)
      << wrong.err;
}

// What the workers of a host have in common is filled from a checkpoint, and saved as a whole.
TEST(BucketsTest, SameBitsAcrossAResumeOfManyParameters) {
  const Scratch scratch;
  const auto run = [&](const std::string& name, int steps, const Words& how) {
    const Words words = {"--steps", std::to_string(steps), "--no-eval"};
    const Ended ended = runProgram(smallRun("wide", scratch.at(name), joined(words, how)));
    EXPECT_EQ(ended.code, 0) << ended.err;
  };
  run("whole", 6, under("single", 1));
  run("parts", 2, under("allreduce", 2));
  run("parts", 4, joined({"--resume"}, under("mirrored", 3)));
  run("parts", 6, joined({"--resume"}, under("allreduce", 3)));
  EXPECT_EQ(differencesAt(scratch.at("whole"), scratch.at("parts"), 6), "");
}

INSTANTIATE_TEST_SUITE_P(Models, SameBitsTest, testing::Values("mlp", "conv", "lstm"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace colla::train
