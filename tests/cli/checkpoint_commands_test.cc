// `colla compare` and `colla inspect` as users call them: what they print, where, and exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/colla_test.h"

namespace colla::cli {
namespace {

using namespace checkpoint;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CheckpointCommandsTest : public CollaTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    add("a", Example(5));
    add("a", Example(6));
    add("b", Example(5));
  }
  void add(const std::string& run, const Example& example) const {
    Directory directory(path(run) + "/checkpoints");
    const auto saved = directory.save(example.manifest, example.contents());
    ASSERT_TRUE(saved.ok()) << saved.status();
  }
};

TEST_F(CheckpointCommandsTest, EqualCheckpoints) {
  const Outcome outcome = colla("compare a@5 b");
  EXPECT_EQ(outcome.exitCode, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("fc.weight"),
                                 EndsWith("\nequal: all 6 tensors have the same bits\n")));
  EXPECT_THAT(outcome.error, IsEmpty());
}

TEST_F(CheckpointCommandsTest, DifferentCheckpoints) {
  const Outcome outcome = colla("compare a b --json result.json");
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("step: 6 in A, 5 in B\n"), HasSubstr("[1, 2]"),
                    EndsWith("\ndifferent: 6 of 6 tensors; largest difference 1 in fc.bias\n")));
  const auto json = nlohmann::json::parse(readText(path("result.json")), nullptr, false);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["tensors"].size(), 6U);
}

TEST_F(CheckpointCommandsTest, DifferencesWithinTheTolerance) {
  const Outcome outcome = colla("compare a b --tolerance 1");
  EXPECT_EQ(outcome.exitCode, 0);
  EXPECT_THAT(outcome.out, HasSubstr("\nequal within 1: 0 of 6 tensors have the same bits"));
  EXPECT_EQ(colla("compare a b --tolerance 0.99").exitCode, 1);
}

TEST_F(CheckpointCommandsTest, ValuesOfBothSides) {
  const Outcome outcome = colla("compare a --values b --json result.json");
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\nfc.bias[0]: 6 in A, 5 in B\n"),
                                 HasSubstr("\nstep: 6 in A, 5 in B\n")));
  const auto json = nlohmann::json::parse(readText(path("result.json")), nullptr, false);
  EXPECT_EQ(json["tensors"][0]["values"][0]["b"], "5");
  EXPECT_THAT(colla("compare a b --values=0").out, Not(HasSubstr("fc.bias[0]")));
}

TEST_F(CheckpointCommandsTest, ErrorsAreOneLineAndExitWithTwo) {
  flipBit(path("b/checkpoints/step-00000005/model.safetensors"), 150);
  for (const auto& [arguments, reason] : std::vector<std::pair<std::string, std::string>>{
           {"compare a", "B is required"},
           {"compare a gone", "there is no file or folder gone"},
           {"compare a@9 a", "there is no step 9"},
           {"compare a b", "model.safetensors is damaged"},
           {"compare a a --tolerance -1", "--tolerance"},
           {"compare a a --tolerance nan", "--tolerance"},
           {"compare a a --tolerance", "--tolerance"},
           {"compare a a --json gone/file", "cannot write gone/file"},
           {"compare a a --json /dev/full", "cannot write /dev/full"},
           {"inspect", "colla inspect: CHECKPOINT is required"},
       }) {
    const Outcome outcome = colla(arguments);
    EXPECT_EQ(outcome.exitCode, 2) << arguments;
    EXPECT_THAT(outcome.error, HasSubstr(reason)) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.error, '\n'), 1) << outcome.error;
  }
}

TEST_F(CheckpointCommandsTest, Inspect) {
  const Outcome outcome = colla("inspect a");
  EXPECT_EQ(outcome.exitCode, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("step                   6 (epoch 0, 0 samples into it)\n"),
                    HasSubstr("slices"), HasSubstr("fc.bias/exp_avg"),
                    EndsWith("\n8 parameters in 6 tensors\n")));
  const auto json = nlohmann::json::parse(colla("inspect a@5 --json").out, nullptr, false);
  EXPECT_EQ(json["manifest"]["step"], 5);
  EXPECT_EQ(colla("inspect a/checkpoints/step-00000005/model.safetensors").exitCode, 0);
  // A checkpoint has the same names as in the other commands, and --json may name a file.
  for (const char* const way : {"--checkpoint-dir a@5", "--run-dir=a@5", "--checkpoint a@5"}) {
    EXPECT_EQ(colla(std::string("inspect --json in.json ") + way).exitCode, 0) << way;
    std::ifstream file(path("in.json"));
    EXPECT_EQ(nlohmann::json::parse(file, nullptr, false), json) << way;
  }
}

TEST_F(CheckpointCommandsTest, InspectSaysWhatIsWrongAndOffersWhatIsWhole) {
  flipBit(path("a/checkpoints/step-00000006/optimizer.safetensors"), 150);
  const Outcome outcome = colla("inspect a");
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("optimizer.safetensors is damaged"),
                                   HasSubstr("step-00000005 is whole")));
  EXPECT_EQ(std::ranges::count(outcome.error, '\n'), 1) << outcome.error;
}

}  // namespace
}  // namespace colla::cli
