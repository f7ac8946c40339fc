#include "train/exchange/partition_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// All that is tried when a number of parts takes so long.
std::vector<int> tried(const std::function<double(int)>& secondsOf, int servers,
                       std::int64_t rows) {
  std::vector<PartitionTrial> trials;
  std::vector<int> numbers;
  while (const int next = nextPartitions(trials, servers, rows)) {
    trials.push_back({next, secondsOf(next)});
    numbers.push_back(next);
  }
  return numbers;
}

TEST(PartitionSearchTest, DoublesUntilItGetsSlower) {
  // Fastest at 8.
  const auto seconds = [](int partitions) { return 64.0 / partitions + partitions; };
  EXPECT_THAT(tried(seconds, 2, 1'000'000), ElementsAre(2, 4, 8, 16));
  EXPECT_THAT(tried([](int partitions) { return 1.0 * partitions; }, 3, 1'000'000),
              ElementsAre(3, 6));
}

TEST(PartitionSearchTest, EndsWhereTablesHaveNoMoreRows) {
  const auto faster = [](int partitions) { return 1.0 / partitions; };
  EXPECT_THAT(tried(faster, 1, 10), ElementsAre(1, 2, 4, 8));
  // And somewhere, whatever is measured.
  EXPECT_THAT(tried(faster, 1, 1'000'000), ElementsAre(1, 2, 4, 8, 16, 32, 64));
}

TEST(PartitionSearchTest, TakesTheFewestThatAreFastEnough) {
  const std::vector<PartitionTrial> trials = {{2, 0.020}, {4, 0.0104}, {8, 0.010}, {16, 0.012}};
  const PartitionChoice choice = choosePartitions(trials);
  EXPECT_EQ(choice.partitions, 4);
  EXPECT_THAT(choice.reason, HasSubstr("2: 20 ms, 4: 10.4 ms, 8: 10 ms, 16: 12 ms"));
}

}  // namespace
}  // namespace colla::train
