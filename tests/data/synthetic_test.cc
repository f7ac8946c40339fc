#include "data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/crc32c.h"
#include "data/nearest_mean.h"

namespace colla::data {
namespace {

std::uint32_t checksum(const Dataset& dataset) {
  std::vector<std::int64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  Random random(0);
  const auto batch = dataset.read(indices, random);
  EXPECT_TRUE(batch.ok()) << batch.status();
  std::uint32_t crc = 0;
  for (const Array& array : *batch) crc = crc32c(array.bytes(), crc);
  return crc;
}

// Contract: the same bytes on every machine and from every compiler. The same in Python has these
// checksums too.
TEST(SyntheticTest, IsTheSameEverywhere) {
  EXPECT_EQ(checksum(**syntheticMnist(100, Part::kTrain)), 2806049299U);
  EXPECT_EQ(checksum(**syntheticMnist(100, Part::kTest)), 3586692002U);
  EXPECT_EQ(checksum(**syntheticMnist(100, Part::kTrain, 2)), 2076514243U);
  EXPECT_EQ(checksum(**syntheticLr(100, 31, Part::kTrain)), 2680564081U);
  EXPECT_EQ(checksum(**syntheticLr(100, 31, Part::kTest)), 1209935710U);
  EXPECT_EQ(checksum(**syntheticLr(100, 31, Part::kTrain, 2)), 1931250307U);
}

TEST(SyntheticTest, ASmallerSetIsTheBeginningOfALargerOne) {
  const auto small = *syntheticMnist(10, Part::kTrain);
  const auto large = *syntheticMnist(20, Part::kTrain);
  Random random(0);
  const std::vector<std::int64_t> indices{9, 2};
  const auto a = small->read(indices, random);
  const auto b = large->read(indices, random);
  EXPECT_TRUE(std::ranges::equal((*a)[0].bytes(), (*b)[0].bytes()));
  EXPECT_TRUE(std::ranges::equal((*a)[1].bytes(), (*b)[1].bytes()));
}

TEST(SyntheticTest, ImagesCanBeLearned) {
  const auto train = *syntheticMnist(6000, Part::kTrain);
  const auto test = *syntheticMnist(1000, Part::kTest);
  const double accuracy = nearestMeanAccuracy(*train, *test);
  EXPECT_GT(accuracy, 0.95);  // Chance: 0.1.
  EXPECT_LT(accuracy, 0.99);  // Something is left for better models.
}

TEST(SyntheticTest, LogisticRegressionReachesWhatItShould) {
  const auto train = *syntheticLr(5000, 100, Part::kTrain);
  const auto test = *syntheticLr(5000, 100, Part::kTest);
  // Two classes with the same spread: the nearest mean is the plane that logistic regression
  // looks for. From 5000 samples it can be known almost exactly.
  EXPECT_NEAR(nearestMeanAccuracy(*train, *test), 0.977, 0.008);
}

}  // namespace
}  // namespace colla::data
