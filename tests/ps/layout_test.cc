#include "ps/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "optim/norm.h"

namespace colla::ps {
namespace {

using ::testing::HasSubstr;

std::vector<Entry> someEntries() {
  return {{.name = "big", .shape = {1000, 1000}},
          {.name = "bias", .shape = {7}},
          {.name = "table", .kind = Kind::kRows, .shape = {1001, 16}},
          {.name = "mean", .kind = Kind::kMean, .type = DataType::kFloat64, .shape = {3}},
          {.name = "empty", .shape = {0, 5}},
          {.name = "scalar", .kind = Kind::kCopy, .type = DataType::kInt64, .shape = {}}};
}

class LayoutTest : public ::testing::TestWithParam<int> {};

// Every element of every entry is in one piece, at its place in the area.
TEST_P(LayoutTest, CoversEverythingOnce) {
  const auto layout = Layout::make(someEntries(), {.servers = GetParam()});
  ASSERT_TRUE(layout.ok()) << layout.status();
  std::vector<std::size_t> next(layout->entries().size());
  std::size_t end = 0;
  for (const Block& block : layout->blocks()) {
    EXPECT_GE(block.offset, end);
    end = block.offset + block.bytes;
    for (const Piece& piece : block.pieces) {
      const Entry& entry = layout->entries()[piece.entry];
      EXPECT_EQ(piece.begin, next[piece.entry]);
      EXPECT_EQ(piece.begin % optim::kNormBlock, 0);
      EXPECT_EQ(piece.offset, layout->offsetOf(piece.entry) + piece.begin * sizeOf(entry.type));
      EXPECT_LE(piece.offset + piece.count * sizeOf(entry.type), end);
      next[piece.entry] += piece.count;
    }
  }
  EXPECT_LE(end, layout->areaBytes());
  for (std::size_t i = 0; i < next.size(); ++i) {
    const Entry& entry = layout->entries()[i];
    EXPECT_EQ(next[i], entry.kind == Kind::kRows ? 0 : entry.count()) << entry.name;
  }
}

TEST_P(LayoutTest, SharesBytesOutEvenly) {
  const auto layout = Layout::make(someEntries(), {.servers = GetParam()});
  ASSERT_TRUE(layout.ok());
  std::vector<std::size_t> load(GetParam());
  std::size_t largest = 0;
  for (const Block& block : layout->blocks()) {
    load[block.server] += block.bytes;
    largest = std::max(largest, block.bytes);
  }
  const auto [least, most] = std::ranges::minmax(load);
  EXPECT_LE(most - least, largest);
}

TEST_P(LayoutTest, TablesAreCutByRow) {
  const auto layout = Layout::make(someEntries(), {.servers = GetParam(), .partitions = 5});
  ASSERT_TRUE(layout.ok());
  const auto parts = layout->partitionsOf(2);
  ASSERT_EQ(parts.size(), 5);
  EXPECT_EQ(parts.front().begin, 0);
  EXPECT_EQ(parts.back().end, 1001);
  for (std::int64_t row = 0; row < 1001; ++row) {
    const Partition& part = layout->partitionOf(2, row);
    EXPECT_LE(part.begin, row);
    EXPECT_GT(part.end, row);
  }
  EXPECT_TRUE(layout->partitionsOf(0).empty());
}

INSTANTIATE_TEST_SUITE_P(Servers, LayoutTest, ::testing::Values(1, 2, 3, 7));

TEST(LayoutErrorTest, NamesWhatCannotBeHeld) {
  const auto refused = [](Entry entry) {
    return std::string(Layout::make({std::move(entry)}, {}).status().message());
  };
  EXPECT_THAT(refused({.name = "a", .type = DataType::kInt64, .shape = {2}}), HasSubstr("\"a\""));
  EXPECT_THAT(refused({.name = "b", .kind = Kind::kRows, .shape = {}}), HasSubstr("no rows"));
  EXPECT_THAT(refused({.name = "c", .shape = {1LL << 40, 1LL << 40}}), HasSubstr("shape"));
  EXPECT_THAT(refused({.name = "d", .shape = {-1}}), HasSubstr("shape"));
  EXPECT_FALSE(Layout::make({}, {.servers = 0}).ok());
}

}  // namespace
}  // namespace colla::ps
