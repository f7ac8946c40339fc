// What the table says of a transport is what the transport is and does.
#include "transport/transports.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "transport/conformance.h"
#include "transport/inproc/transport.h"
#include "transport/listeners.h"

namespace colla::transport {
namespace {

using ::testing::HasSubstr;

// Two peers of it.
Transports makePair(const TransportRow& row) {
  std::vector<Options> options = {conformanceOptions(0, 2), conformanceOptions(1, 2)};
  if (row.betweenProcesses()) {
    return connectAll(
        options, [&](const Options& own) { return row.listen("127.0.0.1:0", own); }, row.connect);
  }
  inproc::Hub hub(2);
  Transports pair;
  for (const Options& own : options) pair.push_back(*hub.connect(own));
  return pair;
}

TEST(TransportsTest, EveryRowConnectsWhatItDescribes) {
  std::set<std::string_view> names;
  for (const TransportRow& row : transports()) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_EQ(findTransport(row.name), &row);
    EXPECT_FALSE(row.help.empty());
    if (row.usable != nullptr && !row.usable().ok()) continue;
    const Transports pair = makePair(row);
    ASSERT_EQ(pair.size(), 2u);
    EXPECT_EQ(pair[0]->name(), row.name);
    EXPECT_EQ(pair[0]->sharedMemory() != nullptr, row.sharedMemory);
  }
  EXPECT_EQ(findTransport("pigeon"), nullptr);
}

TEST(TransportsTest, AutomaticOnesShareMemoryInsideAHostAndEncryptBetweenHosts) {
  EXPECT_TRUE(automaticTransport(Reach::kHost).sharedMemory);
  EXPECT_TRUE(automaticTransport(Reach::kHosts).encrypted);
}

TEST(TransportsTest, TheSettingTakesAutoAndAllBetweenProcesses) {
  std::istringstream words(transportChoices());
  std::string word;
  ASSERT_TRUE(words >> word);
  EXPECT_EQ(word, "auto");
  for (const TransportRow& row : transports()) {
    if (!row.betweenProcesses()) continue;
    ASSERT_TRUE(words >> word);
    EXPECT_EQ(word, row.name);
    EXPECT_THAT(transportHelp(), HasSubstr(fmt::format("{} ({})", row.name, row.help)));
  }
  EXPECT_FALSE(words >> word);
}

TEST(TransportsTest, TheDocsHaveTheSameTable) {
  std::ifstream file(COLLA_SOURCE "/docs/use.md");
  std::stringstream page;
  page << file.rdbuf();
  std::string table =
      "| transport | what | between hosts | encrypted | shared memory |\n"
      "|---|---|---|---|---|\n";
  const auto mark = [](bool is) { return is ? "yes" : "no"; };
  for (const TransportRow& row : transports()) {
    if (!row.betweenProcesses()) continue;
    table +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, row.help,
                    mark(row.reach == Reach::kHosts), mark(row.encrypted), mark(row.sharedMemory));
  }
  EXPECT_THAT(page.str(), HasSubstr(table + "\n"));
}

}  // namespace
}  // namespace colla::transport
