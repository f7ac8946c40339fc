#include "study/variant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::study {
namespace {

using ::testing::HasSubstr;

TEST(VariantTest, ReadsStrategiesWithOptions) {
  const auto choice = parseChoice("ps-ssp:staleness=3");
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->name(), "ps-ssp, staleness 3");
  EXPECT_EQ(choice->id(), "ps-ssp-staleness-3");
  EXPECT_FALSE(choice->exact());
  EXPECT_TRUE(parseChoice("ps-ssp:staleness=0")->exact());
  EXPECT_THAT(std::string(parseChoice("ps-ssp:foo=3").status().message()),
              HasSubstr("ps-ssp has no option \"foo\"; it takes staleness, partitions"));
  EXPECT_THAT(std::string(parseChoice("ps-ssp:3").status().message()),
              HasSubstr("ps-ssp:staleness=3"));
  EXPECT_THAT(std::string(parseChoice("allreduse").status().message()), HasSubstr("did you mean"));
}

TEST(VariantTest, CommandsCanBeTyped) {
  const Program model{.words = {"mlp"}, .flags = {"--hidden", "50"}};
  const Variant variant{.id = "ps-sync-2",
                        .label = "",
                        .strategy = "ps-sync",
                        .workers = 2,
                        .servers = 1,
                        .slices = 2,
                        .threads = 1,
                        .batch = 64,
                        .steps = 20,
                        .evalEvery = 10};
  const RunSettings settings{.data = "mnist:my data", .shuffle = false};
  EXPECT_EQ(commandOf(model, variant, settings, 3, "").text(),
            "colla train mlp --hidden 50 --data 'mnist:my data' --strategy ps-sync --np 2 --ps 1 "
            "--slices 2 --threads 1 "
            "--batch 64 --steps 20 --seed 3 --no-shuffle --eval-every 10");
  const Program script{
      .kind = Program::Kind::kScript, .words = {"python", "train.py"}, .flags = {}};
  EXPECT_EQ(script.name(), "train.py");
  EXPECT_EQ(commandOf(script, variant, settings, 3, "").text(),
            "colla run -np 2 --threads 1 --strategy ps-sync --ps 1 -- python train.py");
}

}  // namespace
}  // namespace colla::study
