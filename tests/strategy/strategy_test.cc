// What users read of the strategies, in refusals and in the docs, is what the table says.
#include "colla/strategy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "colla/strategy_options.h"

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

TEST(StrategyTest, OptionsHaveTheRefusalsOfTheTable) {
  StrategyOptions options;
  EXPECT_TRUE(checkOptions(Strategy::kAllreduce, options).ok());
  options.servers.requeueDropped = true;
  EXPECT_EQ(checkOptions(Strategy::kPsSync, options).message(),
            "--requeue-dropped is for --strategy ps-sync with --backup");
  options.servers.backup = 1;
  EXPECT_TRUE(checkOptions(Strategy::kPsSync, options).ok());
  EXPECT_EQ(checkOptions(Strategy::kHybrid, options).message(),
            "--requeue-dropped is for --strategy ps-sync, not hybrid");
  options = {.servers = {}, .localSgd = {.every = 0}};
  EXPECT_EQ(checkOptions(Strategy::kLocalSgd, options).message(),
            "--every is 0, but takes 1 or more");
}

// A checkpoint's state of an exchange is left out by the strategies that can't use it.
TEST(StrategyTest, StateOfOneStrategyIsForeignToTheOthers) {
  EXPECT_FALSE(isForeignState(Strategy::kLocalSgd, "out.weight/outer_momentum"));
  EXPECT_TRUE(isForeignState(Strategy::kAllreduce, "out.weight/outer_momentum"));
  EXPECT_FALSE(isForeignState(Strategy::kAllreduce, "out.weight/momentum"));
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
    const char* const lost = traits.whenLost == WhenLost::kEnds          ? "no"
                             : traits.whenLost == WhenLost::kBackupSpare ? "with `--backup`"
                                                                         : "yes";
    rows +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", traits.name, traits.summary,
                    workers, yes(traits.servers), yes(traits.inStep), yes(traits.sameBits), lost);
  }
  EXPECT_THAT(docs.str(), HasSubstr("|---|---|---|---|---|---|---|\n" + rows + "\n"));
}

// The section on servers has a second table, with what each option changes: its rows begin with
// "| `ps-sync --backup B` |".
TEST(StrategyTest, TheDocsOfServersHaveTheStrategiesAndTheirOptions) {
  std::ifstream file(COLLA_SOURCE "/docs/use.md");
  std::string line;
  while (std::getline(file, line) && line != "## Parameter servers") {
  }
  std::set<std::string> seen;
  while (std::getline(file, line) && !line.starts_with("## ")) {
    if (!line.starts_with("| `") || line.starts_with("| `--")) continue;
    std::istringstream words(line.substr(3, line.find('`', 3) - 3));
    std::string name;
    words >> name;
    const auto strategy = parseStrategy(name);
    ASSERT_TRUE(strategy.ok()) << line;
    EXPECT_TRUE(hasServers(*strategy)) << line;
    seen.insert(name);
    bool plain = true;
    for (std::string word; words >> word;) {
      if (!word.starts_with("--")) continue;
      plain = false;
      EXPECT_TRUE(checkTakes(*strategy, word.substr(2)).ok()) << line;
    }
    const bool same = line.find("| those of `allreduce` |") != std::string::npos;
    EXPECT_TRUE(!plain || same == traitsOf(*strategy).sameBits) << line;
  }
  for (const StrategyTraits& traits : strategies()) {
    EXPECT_EQ(seen.contains(std::string(traits.name)), traits.servers) << traits.name;
  }
}

}  // namespace
}  // namespace colla
