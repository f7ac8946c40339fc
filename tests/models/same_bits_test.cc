// Contract: `colla train MODEL` gives the same bits under every strategy, for every number of
// workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "checkpoint/fixture.h"
#include "cli/command.h"

namespace colla::models {
namespace {

class SameBitsTest : public checkpoint::CheckpointTest,
                     public ::testing::WithParamInterface<const char*> {
 protected:
  cli::Outcome colla(const std::string& arguments) const { return cli::runColla(root_, arguments); }
};

std::string withoutSeconds(const std::string& lines) {
  return std::regex_replace(lines, std::regex(" - [0-9]+s - "), " - ");
}

// 5 steps of 64 samples, the last one with 44; slices of 22, 21 and 21.
TEST_P(SameBitsTest, UnderEveryStrategy) {
  const std::string train =
      std::string("train ") + GetParam() +
      " --epochs 1 --batch 64 --slices 3 --threads 1 --optimizer adam --keep all --save-every 2";
  const auto first = colla(train + " --checkpoint-dir single");
  ASSERT_EQ(first.exitCode, 0) << first.error;
  for (const char* way : {"--strategy mirrored --np 2", "--strategy allreduce --np 2",
                          "--strategy allreduce --np 3"}) {
    std::filesystem::remove_all(path("other"));
    const auto other = colla(train + " --checkpoint-dir other " + way);
    ASSERT_EQ(other.exitCode, 0) << way << "\n" << other.error;
    EXPECT_EQ(withoutSeconds(other.out), withoutSeconds(first.out)) << way;
    for (const char* step : {"@0", "@2", "@5"}) {
      const auto compared = colla(std::string("compare single") + step + " other" + step);
      EXPECT_EQ(compared.exitCode, 0) << way << "\n" << compared.out << compared.error;
    }
  }
  // And it is able to say no.
  EXPECT_EQ(colla("compare single@4 single@5").exitCode, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SameBitsTest,
    ::testing::Values("deepfam --data synthetic:gpcr:300 --length 120 --windows "
                      "5,8,12 --filters 12 --hidden 30",
                      "lr --data synthetic:lr:300x301", "softmax --data synthetic:mnist:300",
                      "snn --data synthetic:mnist:300", "mlp --data synthetic:mnist:300"),
    [](const auto& model) {
      const std::string text = model.param;
      return text.substr(0, text.find(' '));
    });

}  // namespace
}  // namespace colla::models
