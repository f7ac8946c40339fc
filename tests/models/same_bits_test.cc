// Contract: `colla train MODEL` gives the same bits under every strategy, for every number of
// workers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <regex>
#include <vector>

#include "support/colla_test.h"

namespace colla::models {
namespace {

// How a model is trained here: its flags, the steps that are compared, and the strategies.
struct Training {
  std::string name;
  std::string flags;
  std::vector<int> steps;
  std::vector<std::string> ways;
};

std::ostream& operator<<(std::ostream& out, const Training& run) { return out << run.flags; }

class SameBitsTest : public cli::CollaTest, public ::testing::WithParamInterface<Training> {
 protected:
};

std::string withoutSeconds(const std::string& lines) {
  return std::regex_replace(lines, std::regex(" - [0-9]+s - "), " - ");
}

TEST_P(SameBitsTest, UnderEveryStrategy) {
  const Training& run = GetParam();
  const std::string train = "train " + run.flags + " --slices 3 --threads 1 --keep all";
  const auto first = colla(train + " --checkpoint-dir single");
  ASSERT_EQ(first.exitCode, 0) << first.error;
  for (const std::string& way : run.ways) {
    std::filesystem::remove_all(path("other"));
    const auto other = colla(fmt::format("{} --checkpoint-dir other {}", train, way));
    ASSERT_EQ(other.exitCode, 0) << way << "\n" << other.error;
    EXPECT_EQ(withoutSeconds(other.out), withoutSeconds(first.out)) << way;
    EXPECT_EQ(first.out.find("val_loss") == std::string::npos,
              run.flags.ends_with("--no-eval"));  // What was compared are evaluations, too.
    for (const int step : run.steps) {
      const auto compared = colla(fmt::format("compare single@{0} other@{0}", step));
      EXPECT_EQ(compared.exitCode, 0) << way << "\n" << compared.out << compared.error;
    }
  }
  // And it is able to say no.
  EXPECT_EQ(colla(fmt::format("compare single@0 single@{}", run.steps.back())).exitCode, 1);
}

const std::vector<std::string> kAllWays = {
    "--strategy mirrored --np 2", "--strategy allreduce --np 2", "--strategy allreduce --np 3"};
// Where a step takes very long, and the same code is tried in all ways with a smaller model.
const std::vector<std::string> kTwoWays = {"--strategy mirrored --np 2",
                                           "--strategy allreduce --np 2"};

// 5 steps of 64 samples, the last one with 44; slices of 22, 21 and 21.
Training quick(const std::string& name, const std::string& flags) {
  return {name,
          name + " " + flags + " --epochs 1 --batch 64 --optimizer adam --save-every 2",
          {0, 2, 5},
          kAllWays};
}

// 3 steps of 16 samples, by the model's own optimizer, and an evaluation. There are slices of 3, 2
// and 2 samples, in the last step of 1, 1 and none.
Training slow(const std::string& name, const std::string& flags) {
  return {name, name + " " + flags + " --epochs 1 --batch 7", {0, 3}, kAllWays};
}

// One step, of a model that another row has in small or otherwise.
Training largest(const std::string& name, const std::string& model) {
  return {name, model + " --steps 1 --batch 7 --no-eval", {0, 1}, kTwoWays};
}

INSTANTIATE_TEST_SUITE_P(
    Models, SameBitsTest,
    ::testing::Values(
        quick("deepfam",
              "--data synthetic:gpcr:300 --length 120 --windows 5,8,12 --filters 12 --hidden 30"),
        Training{"deepfam_none",
                 "deepfam --norm none --data synthetic:gpcr:300 --length 120 --windows 5,8 "
                 "--filters 12 --hidden 30 --epochs 1 --batch 64",
                 {0, 5},
                 kAllWays},
        quick("lr", "--data synthetic:lr:300x301"), quick("softmax", "--data synthetic:mnist:300"),
        quick("snn", "--data synthetic:mnist:300"), quick("mlp", "--data synthetic:mnist:300"),
        Training{"lr_sparse",
                 "lr --data synthetic:libsvm:300x500 --epochs 1 --batch 64 --optimizer adam",
                 {0, 5},
                 kAllWays},
        Training{"lm",
                 "lm --data synthetic:text:3000x400 --steps 5 --batch 33 --embedding 16 --units 24 "
                 "--projection 12 --candidates 50",
                 {0, 5},
                 kAllWays},
        slow("resnet50v2", "--data synthetic:cifar10:16 --input 32x32"),
        slow("inceptionv3", "--data synthetic:cifar10:16 --input 75x75"),
        slow("im2txt",
             "--data synthetic:captions:16 --input 75x75 --units 16 --embedding 12 "
             "--train-inception true"),
        largest("resnet50v2_augment",
                "resnet50v2 --data synthetic:cifar10:7 --input 32x32 --augment true"),
        largest("resnet101v2", "resnet101v2 --data synthetic:cifar10:7 --input 32x32"),
        largest("resnet152v2", "resnet152v2 --data synthetic:cifar10:7 --input 32x32"),
        // Inception stays as it is, which is the default.
        largest("im2txt_frozen",
                "im2txt --data synthetic:captions:7 --input 75x75 --units 16 --embedding 12")),
    [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace colla::models
