// What only a large model has: more rows than are summed at once, parameters that no cache holds.
#include "ps/shard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

namespace colla::ps {
namespace {

constexpr std::size_t kColumns = 5;

collective::Rows someRows(std::int64_t rows, unsigned seed) {
  std::mt19937 random(seed);
  collective::Rows some;
  for (std::int64_t row = 0; row < rows; ++row) {
    // Crowded at the end, so that ranges have unequal work.
    if (random() % (row < rows / 2 ? 50 : 2) == 0) some.rows.push_back(row);
  }
  for (std::size_t i = 0; i < some.rows.size() * kColumns; ++i) {
    some.values.push_back(std::ldexp(1.0F + static_cast<float>(random() % 1000) / 999.0F,
                                     static_cast<int>(random() % 20)));
  }
  return some;
}

TEST(ShardTest, RowsHaveTheSameBitsHoweverTheyAreCut) {
  constexpr std::int64_t kTableRows = 20'000;
  const SliceMap map = *SliceMap::even(3, 3);
  const OptimizerOptions options = *parseOptimizer("adam");
  const optim::UpdateRule rule = *optim::UpdateRule::make(options);
  std::vector<collective::Rows> leaves;
  for (unsigned seed = 0; seed < 3; ++seed) leaves.push_back(someRows(kTableRows, seed));

  std::vector<float> expected(kTableRows * kColumns);
  std::vector<std::vector<float>> slots(rule.slots().size(), expected);
  std::vector<std::span<float>> slotSpans(slots.begin(), slots.end());
  const std::vector<collective::RowsView> views(leaves.begin(), leaves.end());
  const collective::Rows sum = collective::foldRows(collective::SumTree::of(map), views, kColumns);
  for (std::int64_t step = 1; step <= 2; ++step) {
    rule.applyRows<float>({.step = step, .lr = learningRate(options)}, expected, kColumns, sum.rows,
                          sum.values, slotSpans);
  }
  for (const int threads : {1, 3}) {
    const Layout layout =
        *Layout::make({{.name = "table", .kind = Kind::kRows, .shape = {kTableRows, kColumns}}},
                      {.partitions = 3});
    Team team(threads, /*worthSharing=*/0);
    Shard shard(layout, 0, {rule}, map.tree(), team);
    const Shard::RowLeaves rows = [&](int, std::span<collective::RowsView> out) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = collective::RowsView(leaves[i]);
    };
    const Shard::Sinks nobody = [](int, std::vector<std::byte*>&) {};
    const Terms terms{.present = {1}};
    shard.update(terms, nullptr, rows, nobody);
    shard.sum(terms, nullptr, rows);  // In two passes, the same.
    shard.applySums(terms, nobody);
    std::vector<float> got;
    for (const int part : shard.partitions()) {
      got.insert(got.end(), shard.partition(part).begin(), shard.partition(part).end());
    }
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)), 0)
        << threads << " threads";
  }
}

// Two copies of 12 MB go past the caches.
TEST(ShardTest, LargeParametersAreHandedOutWhole) {
  constexpr std::size_t kCount = 3'000'001;
  const SliceMap map = *SliceMap::even(1, 1);
  const Layout layout =
      *Layout::make({{.name = "large", .shape = {static_cast<std::int64_t>(kCount)}}}, {});
  Team team(2);
  Shard shard(layout, 0, {*optim::UpdateRule::make(Sgd{.lr = 1})}, map.tree(), team);
  std::vector<float> gradient(kCount);
  std::iota(gradient.begin(), gradient.end(), -100.0F);
  const AlignedBytes one(layout.areaBytes());
  const AlignedBytes other(layout.areaBytes());
  const Shard::Leaves leaves = [&](int block, std::span<const std::byte*> out) {
    out[0] = reinterpret_cast<const std::byte*>(gradient.data()) + layout.blocks()[block].offset;
  };
  const Shard::Sinks sinks = [&](int block, std::vector<std::byte*>& out) {
    for (const AlignedBytes* area : {&one, &other}) {
      out.push_back(area->bytes().data() + layout.blocks()[block].offset);
    }
  };
  shard.update({.present = {1}, .bytes = kCount * sizeof(float)}, leaves, nullptr, sinks);
  for (const AlignedBytes* area : {&one, &other}) {
    const auto* const values = reinterpret_cast<const float*>(area->bytes().data());
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], -gradient[i]) << i;
  }
}

}  // namespace
}  // namespace colla::ps
