// Contract: a training whose workers change between steps, in number, in order and in who of them
// records, has the bits of a straight run in every step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/colla_test.h"

namespace colla::models {
namespace {

class SegmentsTest : public cli::CollaTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void run(const std::string& words) const {
    const auto ended = colla(words);
    EXPECT_EQ(ended.exitCode, 0) << words << "\n" << ended.out << ended.error;
  }
};

TEST_P(SegmentsTest, HaveTheBitsOfAStraightRun) {
  const std::string model = GetParam();
  run(fmt::format("run -np 1 -- {} {} single straight", COLLA_SEGMENTS_PROGRAM, model));
  // Of these models lm alone has tables: hybrid trains the others without its servers.
  for (const std::string strategy : {"allreduce", "ps-sync", "hybrid"}) {
    const std::string servers = strategy == "allreduce" ? "" : "--ps 2 ";
    run(fmt::format("run -np 4 {}-- {} {} {} {} changes", servers, COLLA_SEGMENTS_PROGRAM, model,
                    strategy, strategy));
    for (int step = 0; step <= 12; ++step) {
      const auto compared = colla(fmt::format("compare straight@{0} {1}@{0}", step, strategy));
      EXPECT_EQ(compared.exitCode, 0) << strategy << "\n" << compared.out << compared.error;
    }
  }
  const auto moved = colla("compare straight@0 straight@12");
  EXPECT_EQ(moved.exitCode, 1) << "a run that stands still proves nothing";
}

// Nothing was given up when a plan is refused: the message is about the plan, on every worker.
using BadPlanTest = cli::CollaTest;
TEST_F(BadPlanTest, APlanWhoseRecorderIsNobodyIsRefused) {
  const auto ended =
      colla(fmt::format("run -np 2 -- {} mlp allreduce bad bad-plan", COLLA_SEGMENTS_PROGRAM));
  EXPECT_NE(ended.exitCode, 0);
  EXPECT_NE(ended.error.find("the recorder, rank 2, is not one of the epoch's ranks 0 to 1"),
            std::string::npos)
      << ended.error;
}

INSTANTIATE_TEST_SUITE_P(Models, SegmentsTest, ::testing::Values("mlp", "deepfam", "lm"));

}  // namespace
}  // namespace colla::models
