// Images as models ask for them: scaled, cropped, flipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "data/loader.h"
#include "data/samples.h"

namespace colla::data {
namespace {

using ::testing::ElementsAre;

std::vector<float> imageOf(const Batch& batch, std::int64_t sample) {
  const std::int64_t size = batch[0].count() / batch[0].rows();
  const auto image = batch[0].as<float>().subspan(sample * size, size);
  return {image.begin(), image.end()};
}

TEST(ImageDatasetTest, ScaledImagesHaveTheSizeAskedFor) {
  const auto plain = opened("synthetic:cifar10:60");
  EXPECT_TRUE(plain->inMemory());
  const auto large = opened("synthetic:cifar10:60", Part::kTest, sized(128, 96));
  EXPECT_FALSE(large->inMemory()) << "scaling belongs into the threads that read ahead";
  EXPECT_EQ(large->describe(),
            "synthetic:cifar10, test part: 10 samples of image float32 3x128x96, label int64 "
            "(10 classes)");
  const Batch batch = readSome(*large, {4, 4, 7});
  EXPECT_THAT(batch[0].shape(), ElementsAre(3, 3, 128, 96));
  EXPECT_EQ(imageOf(batch, 0), imageOf(batch, 1));
  EXPECT_NE(imageOf(batch, 0), imageOf(batch, 2));
  // MNIST's one channel too.
  EXPECT_THAT(readSome(*opened("synthetic:mnist:6", Part::kTrain, sized(8, 9)), {0})[0].shape(),
              ElementsAre(1, 1, 8, 9));
}

TEST(ImageDatasetTest, AnImageDoesNotDependOnItsBatch) {
  const auto set = opened("synthetic:cifar10:60", Part::kTrain, sized(40, 24));
  const Batch together = readAll(*set);
  for (const std::int64_t i : {0, 17, 59}) {
    EXPECT_EQ(imageOf(readSome(*set, {i}), 0), imageOf(together, i));
  }
}

TEST(ImageDatasetTest, AugmentsTheTrainingPartFromTheStreamAlone) {
  const ReadOptions options = augmented();
  const auto train = opened("synthetic:cifar10:60", Part::kTrain, options);
  EXPECT_TRUE(train->inMemory()) << "cropping is copying";
  const std::vector<std::int64_t> same(20, 3);
  const Batch once = readSome(*train, same, 5);
  const Batch again = readSome(*train, same, 5);
  const Batch other = readSome(*train, same, 6);
  EXPECT_TRUE(std::ranges::equal(once[0].bytes(), again[0].bytes()));
  EXPECT_FALSE(std::ranges::equal(once[0].bytes(), other[0].bytes()));
  EXPECT_NE(imageOf(once, 0), imageOf(once, 1));

  const auto test = opened("synthetic:cifar10:60", Part::kTest, options);
  const auto plain = opened("synthetic:cifar10:60", Part::kTest);
  EXPECT_EQ(checksum(*test), checksum(*plain));
}

// Contract: the same batches whatever the threads that read ahead.
TEST(ImageDatasetTest, PrefetchThreadsChangeNothing) {
  const auto set = opened("synthetic:cifar10:60", Part::kTrain, augmented(sized(20, 20)));
  const auto order = *Order::create({.samples = 60, .batch = 16, .slices = 2, .seed = 3});
  const auto images = [&](int threads) {
    auto loader = *Loader::create(set, order, {.slices = {0, 2}, .endStep = 6, .threads = threads});
    std::vector<float> all;
    for (int i = 0; i < 12; ++i) {
      const auto batch = *loader->next();
      all.insert(all.end(), batch[0].as<float>().begin(), batch[0].as<float>().end());
    }
    return all;
  };
  EXPECT_EQ(images(0), images(3));
}

}  // namespace
}  // namespace colla::data
