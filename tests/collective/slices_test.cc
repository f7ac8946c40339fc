#include "colla/slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "collective/sum_tree.h"

namespace colla {
namespace {

TEST(SlicesTest, SplitsAtTheLargestPowerOfTwoBelowTheCount) {
  EXPECT_EQ(splitPoint({0, 2}), 1);
  EXPECT_EQ(splitPoint({0, 3}), 2);
  EXPECT_EQ(splitPoint({0, 4}), 2);
  EXPECT_EQ(splitPoint({0, 5}), 4);
  EXPECT_EQ(splitPoint({0, 8}), 4);
  EXPECT_EQ(splitPoint({0, 9}), 8);
  EXPECT_EQ(splitPoint({4, 7}), 6);
}

TEST(SlicesTest, EvenMapsAreEvenAndPreferSubtrees) {
  for (int slices = 1; slices <= 40; ++slices) {
    for (int workers = 1; workers <= slices; ++workers) {
      const auto map = SliceMap::even(slices, workers);
      ASSERT_TRUE(map.ok());
      ASSERT_EQ(map->slices(), slices);
      ASSERT_EQ(map->workers(), workers);
      const int most = (slices + workers - 1) / workers;
      for (int worker = 0; worker < workers; ++worker) {
        EXPECT_GE(map->range(worker).size(), 1);
        EXPECT_LE(map->range(worker).size(), most);
      }
    }
  }
  // Where subtrees are as even as anything, every worker has one.
  for (const auto& [slices, workers] : {std::pair{8, 4}, {8, 2}, {6, 3}, {4, 3}, {16, 8}, {7, 4}}) {
    const auto map = SliceMap::even(slices, workers);
    for (int worker = 0; worker < workers; ++worker) {
      EXPECT_EQ(map->subtrees(worker).size(), 1U) << slices << " slices, worker " << worker;
    }
  }
}

int partialSums(const SliceMap& map) {
  int count = 0;
  for (int worker = 0; worker < map.workers(); ++worker) {
    count += static_cast<int>(map.subtrees(worker).size());
  }
  return count;
}

// The fewest partial sums of all maps that give no worker more than `most`, by trying each.
int fewestPartialSums(std::vector<int> first, int workers, int slices, int most) {
  const int left = slices - first.back();
  if (workers == 0) return left == 0 ? partialSums(*SliceMap::of(std::move(first))) : slices;
  int fewest = slices;
  for (int size = 1; size <= std::min(most, left); ++size) {
    std::vector<int> longer = first;
    longer.push_back(first.back() + size);
    fewest = std::min(fewest, fewestPartialSums(std::move(longer), workers - 1, slices, most));
  }
  return fewest;
}

TEST(SlicesTest, EvenMapsHaveHardlyMorePartialSumsThanAnyOther) {
  int ours = 0, fewest = 0;
  for (int slices = 1; slices <= 12; ++slices) {
    for (int workers = 1; workers <= slices; ++workers) {
      const int most = (slices + workers - 1) / workers;
      ours += partialSums(*SliceMap::even(slices, workers));
      fewest += fewestPartialSums({0}, workers, slices, most);
    }
  }
  EXPECT_LE(ours, fewest + fewest / 100);
}

TEST(SlicesTest, ManySlicesAndWorkersAreNoTrouble) {
  for (const auto& [slices, workers] : {std::pair{100'000, 10'000},
                                        {100'000, 9'999},
                                        {99'991, 9'000},
                                        {100'000, 99'999},
                                        {1'000'000, 3},
                                        {2'000'000'000, 1'000}}) {
    const auto map = SliceMap::even(slices, workers);
    ASSERT_TRUE(map.ok());
    ASSERT_EQ(map->slices(), slices);
    ASSERT_EQ(map->workers(), workers);
    int least = slices, most = 0;
    for (int worker = 0; worker < workers; ++worker) {
      least = std::min(least, map->range(worker).size());
      most = std::max(most, map->range(worker).size());
    }
    EXPECT_GE(least, 1);
    EXPECT_EQ(most, slices / workers + (slices % workers == 0 ? 0 : 1));
    // Between them, n-1 cuts tear at most the subtrees on the way down to each.
    EXPECT_LE(partialSums(*map), workers * 2 * std::bit_width(static_cast<unsigned>(most)));
  }
}

TEST(SlicesTest, RefusesMoreWorkersThanSlices) {
  const auto map = SliceMap::even(2, 3);
  ASSERT_FALSE(map.ok());
  EXPECT_EQ(map.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(map.status().message().find("3 workers can't share 2 slices"), std::string::npos);
  EXPECT_FALSE(SliceMap::of({0}).ok());
  EXPECT_FALSE(SliceMap::of({0, 2, 2}).ok());
  EXPECT_FALSE(SliceMap::of({1, 2}).ok());
}

TEST(SlicesTest, SubtreesCoverTheRange) {
  const auto map = SliceMap::of({0, 3, 6, 9});
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->subtrees(0), (std::vector<SliceRange>{{0, 2}, {2, 3}}));
  EXPECT_EQ(map->subtrees(1), (std::vector<SliceRange>{{3, 4}, {4, 6}}));
  EXPECT_EQ(map->subtrees(2), (std::vector<SliceRange>{{6, 8}, {8, 9}}));
}

TEST(SumTreeTest, CompleteOnlyWhereHalvingWouldAddInItsOrder) {
  using collective::SumTree;
  for (const int ranks : {1, 2, 4, 8, 16}) EXPECT_TRUE(SumTree::ofRanks(ranks).complete());
  for (const int ranks : {3, 5, 6, 7, 9, 12}) EXPECT_FALSE(SumTree::ofRanks(ranks).complete());
  EXPECT_TRUE(SumTree::of(*SliceMap::of({0, 2, 4, 6, 8})).complete());
  // Four workers with one subtree each, but at different depths.
  EXPECT_FALSE(SumTree::of(*SliceMap::of({0, 4, 6, 7, 8})).complete());
  // A worker with two subtrees.
  EXPECT_FALSE(SumTree::of(*SliceMap::of({0, 3, 4})).complete());
}

}  // namespace
}  // namespace colla
