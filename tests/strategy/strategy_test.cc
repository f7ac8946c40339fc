// What users read of the strategies, in refusals and in the docs, is what the table says.
#include "colla/strategy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace colla {
namespace {

using ::testing::HasSubstr;

TEST(StrategyTest, NamesLeadBackToTheStrategy) {
  for (const StrategyTraits& traits : strategies()) {
    const auto parsed = parseStrategy(traits.name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, traits.strategy);
    EXPECT_EQ(toString(*parsed), traits.name);
    EXPECT_EQ(hasServers(*parsed), traits.servers);
  }
}

TEST(StrategyTest, AnUnknownNameIsRefusedWithThoseThereAre) {
  const auto parsed = parseStrategy("ring");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(parsed.status().message(), HasSubstr("no strategy \"ring\": use single, mirrored"));
  EXPECT_THAT(parsed.status().message(), HasSubstr("or local-sgd"));
}

TEST(StrategyTest, AnOptionIsRefusedWithTheStrategiesThatTakeIt) {
  EXPECT_TRUE(checkTakes(Strategy::kPsSync, "backup").ok());
  EXPECT_EQ(checkTakes(Strategy::kAllreduce, "backup").message(),
            "--backup is for --strategy ps-sync or hybrid, not allreduce");
  EXPECT_EQ(checkTakes(Strategy::kPsSync, "every").message(),
            "--every is for --strategy local-sgd, not ps-sync");
}

TEST(StrategyTest, OneWithoutTheSameBitsSaysWhy) {
  for (const StrategyTraits& traits : strategies()) {
    EXPECT_EQ(traits.difference.empty(), traits.sameBits) << traits.name;
  }
}

// A source file in one line, without the signs of comments.
std::string textOf(const std::string& path) {
  std::ifstream file(COLLA_SOURCE "/" + path);
  std::string text;
  for (std::string word; file >> word;) {
    if (word != "//") text += word + " ";
  }
  return text;
}

TEST(StrategyTest, DocsPromiseTheSameBitsWhereTheTableDoes) {
  const std::string names =
      strategyNames([](const StrategyTraits& traits) { return traits.sameBits; });
  for (const std::string path : {"include/colla/trainer.h", "docs/use.md", "docs/train.md"}) {
    EXPECT_THAT(textOf(path), HasSubstr(names)) << path;
  }
}

TEST(StrategyTest, TheDocsHaveTheTable) {
  std::ifstream file(COLLA_SOURCE "/docs/use.md");
  std::stringstream docs;
  docs << file.rdbuf();
  const auto yes = [](bool value) { return value ? "yes" : "no"; };
  std::string rows;
  for (const StrategyTraits& traits : strategies()) {
    const char* const workers = traits.workers == WorkerKind::kOnlyOne   ? "one"
                                : traits.workers == WorkerKind::kThreads ? "threads"
                                                                         : "processes";
    rows += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", traits.name, traits.summary,
                        workers, yes(traits.servers), yes(traits.inStep), yes(traits.sameBits),
                        yes(traits.losesWorkers));
  }
  EXPECT_THAT(docs.str(), HasSubstr("|---|---|---|---|---|---|---|\n" + rows + "\n"));
}

}  // namespace
}  // namespace colla
