#include "data/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace colla::data {
namespace {

using ::testing::ElementsAre;

// All samples of an epoch, slice by slice.
std::vector<std::int64_t> readEpoch(const OrderOptions& options, std::int64_t epoch) {
  const Order order = *Order::create(options);
  const EpochOrder epochOrder(order, epoch);
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> part;
  for (std::int64_t batch = 0; batch < order.batchesPerEpoch(); ++batch) {
    for (int slice = 0; slice < options.slices; ++slice) {
      epochOrder.indices(order.slice(batch, slice), part);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

std::vector<std::int64_t> natural(std::int64_t samples) {
  std::vector<std::int64_t> indices(samples);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

TEST(OrderTest, EverySampleOncePerEpoch) {
  for (const std::int64_t samples : {1, 2, 7, 100, 101}) {
    for (const std::int64_t batch : {1, 3, 10, 1000}) {
      for (const int slices : {1, 2, 3, 8}) {
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          auto all = readEpoch({samples, batch, slices, 5, true}, epoch);
          std::ranges::sort(all);
          EXPECT_EQ(all, natural(samples)) << samples << " " << batch << " " << slices;
          EXPECT_EQ(readEpoch({samples, batch, slices, 5, false}, epoch), natural(samples));
        }
      }
    }
  }
}

TEST(OrderTest, DependsOnSeedAndEpochAlone) {
  const auto first = readEpoch({100, 10, 1, 5, true}, 0);
  EXPECT_EQ(first, readEpoch({100, 10, 1, 5, true}, 0));
  EXPECT_EQ(first, readEpoch({100, 7, 3, 5, true}, 0));  // Not on the cut.
  EXPECT_NE(first, readEpoch({100, 10, 1, 5, true}, 1));
  EXPECT_NE(first, readEpoch({100, 10, 1, 6, true}, 0));
  EXPECT_NE(first, natural(100));
}

// Contract: runs can be repeated on any machine, with any later version.
TEST(OrderTest, IsFixedForever) {
  EXPECT_THAT(readEpoch({10, 10, 1, 1, true}, 0), ElementsAre(3, 2, 5, 4, 0, 8, 7, 6, 1, 9));
}

TEST(OrderTest, PiecesAreEvenAndTheLargerOnesComeFirst) {
  const Order order = *Order::create({.samples = 23, .batch = 10, .slices = 4});
  EXPECT_EQ(order.batchesPerEpoch(), 3);
  EXPECT_EQ(order.batch(0), (Piece{0, 10}));
  EXPECT_EQ(order.slice(0, 0), (Piece{0, 3}));
  EXPECT_EQ(order.slice(0, 1), (Piece{3, 3}));
  EXPECT_EQ(order.slice(0, 2), (Piece{6, 2}));
  EXPECT_EQ(order.slice(0, 3), (Piece{8, 2}));
  // The last batch is kept; not every slice of it has a sample.
  EXPECT_EQ(order.batch(2), (Piece{20, 3}));
  EXPECT_EQ(order.slice(2, 0), (Piece{20, 1}));
  EXPECT_EQ(order.slice(2, 2), (Piece{22, 1}));
  EXPECT_EQ(order.slice(2, 3), (Piece{23, 0}));
}

TEST(OrderTest, StepsAndPositionsAreTheSameThing) {
  const Order order = *Order::create({.samples = 23, .batch = 10});
  EXPECT_EQ(order.position(0), (Position{0, 0}));
  EXPECT_EQ(order.position(2), (Position{0, 2}));
  EXPECT_EQ(order.position(3), (Position{1, 0}));
  for (std::int64_t step = 0; step < 20; ++step) {
    EXPECT_EQ(order.step(order.position(step)), step);
  }
}

TEST(OrderTest, RefusesNothingToRead) {
  EXPECT_FALSE(Order::create({.samples = 0, .batch = 1}).ok());
  EXPECT_FALSE(Order::create({.samples = 1, .batch = 0}).ok());
  EXPECT_FALSE(Order::create({.samples = 1, .batch = 1, .slices = 0}).ok());
}

}  // namespace
}  // namespace colla::data
