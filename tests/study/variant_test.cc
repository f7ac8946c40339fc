#include "study/variant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::study {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(VariantTest, HostsAreForWorkersThatAreProcesses) {
  const Program model{.words = {"mlp"}, .flags = {}};
  const RunSettings settings{.data = "", .hosts = {"--hosts", "a:2,b:2"}};
  Variant variant{.id = "", .label = "", .strategy = "allreduce", .workers = 4, .steps = 10};
  EXPECT_THAT(commandOf(model, variant, settings, 1, "").text(), HasSubstr("--hosts a:2,b:2"));
  variant.strategy = "mirrored";  // Its workers are threads.
  EXPECT_THAT(commandOf(model, variant, settings, 1, "").text(), Not(HasSubstr("--hosts")));
  variant.strategy = "single";
  variant.workers = 1;
  EXPECT_THAT(commandOf(model, variant, settings, 1, "").text(), Not(HasSubstr("--hosts")));
}

TEST(VariantTest, PeersAreStartedByTheirOwnProgram) {
  const Variant variant{.id = "ddp-3",
                        .label = "",
                        .purpose = Purpose::kPeer,
                        .workers = 3,
                        .threads = 2,
                        .batch = 300,
                        .steps = 40,
                        .peer = "ddp",
                        .peerWords = {"python", "peer_training.py", "ddp"}};
  EXPECT_EQ(commandOf({.words = {"snn"}, .flags = {}}, variant, {}, 2, "out").text(),
            "python peer_training.py ddp --workers 3 --threads 2 --batch 300 --steps 40 --seed 2 "
            "--out out");
}

}  // namespace
}  // namespace colla::study
