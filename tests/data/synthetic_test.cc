#include "data/synthetic/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "data/nearest_mean.h"
#include "data/samples.h"

namespace colla::data {
namespace {

// Contract: the same bytes on every machine and from every compiler. The first two, written again
// in Python, have these checksums too.
TEST(SyntheticTest, IsTheSameEverywhere) {
  EXPECT_EQ(checksum(**syntheticMnist(100, Part::kTrain)), 2806049299U);
  EXPECT_EQ(checksum(**syntheticMnist(100, Part::kTest)), 3586692002U);
  EXPECT_EQ(checksum(**syntheticMnist(100, Part::kTrain, 2)), 2076514243U);
  EXPECT_EQ(checksum(**syntheticLr(100, 31, Part::kTrain)), 2680564081U);
  EXPECT_EQ(checksum(**syntheticLr(100, 31, Part::kTest)), 1209935710U);
  EXPECT_EQ(checksum(**syntheticLr(100, 31, Part::kTrain, 2)), 1931250307U);
  EXPECT_EQ(checksum(**syntheticCifar10(20, Part::kTrain)), 2113620197U);
  EXPECT_EQ(checksum(**syntheticCifar10(20, Part::kTest)), 3644778606U);
  EXPECT_EQ(checksum(**syntheticCifar100(20, Part::kTrain)), 3087813117U);
  EXPECT_EQ(checksum(**syntheticCifar100(20, Part::kTest)), 2473869866U);
  EXPECT_EQ(checksum(**syntheticGpcr(20, Part::kTrain)), 2090721529U);
  EXPECT_EQ(checksum(**syntheticGpcr(20, Part::kTest)), 3364331025U);
  EXPECT_EQ(checksum(**syntheticLibsvm(100, 1000, Part::kTrain)), 2851383400U);
  EXPECT_EQ(checksum(**syntheticLibsvm(100, 1000, Part::kTest)), 1112463167U);
  EXPECT_EQ(checksum(**syntheticText(1001, 100, Part::kTrain)), 3702530627U);
  EXPECT_EQ(checksum(**syntheticText(1001, 100, Part::kTest)), 3047481300U);
  EXPECT_EQ(checksum(**syntheticCaptions(20, Part::kTrain)), 2333764302U);
  EXPECT_EQ(checksum(**syntheticCaptions(20, Part::kTest)), 4144615376U);
}

TEST(SyntheticTest, ASmallerSetIsTheBeginningOfALargerOne) {
  const auto check = [](auto make) {
    const auto small = *make(100, Part::kTrain);
    const auto large = *make(200, Part::kTrain);
    const std::vector<std::int64_t> indices{3, 2};
    const Batch a = readSome(*small, indices);
    const Batch b = readSome(*large, indices);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(a[i].bytes(), b[i].bytes())) << small->describe();
    }
  };
  check([](auto n, Part part) { return syntheticMnist(n, part); });
  check([](auto n, Part part) { return syntheticCifar10(n, part); });
  check([](auto n, Part part) { return syntheticGpcr(n, part); });
  check([](auto n, Part part) { return syntheticLibsvm(n, 50, part); });
  check([](auto n, Part part) { return syntheticText(n, 50, part); });
  check([](auto n, Part part) { return syntheticCaptions(n, part); });
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

TEST(SyntheticTest, ColouredImagesCanBeLearned) {
  const auto train = *syntheticCifar10(3000, Part::kTrain);
  const auto test = *syntheticCifar10(1000, Part::kTest);
  const double accuracy = nearestMeanAccuracy(*train, *test);
  EXPECT_GT(accuracy, 0.7);   // Chance: 0.1.
  EXPECT_LT(accuracy, 0.97);  // Something is left for better models.
}

TEST(SyntheticTest, AHundredClassesCanBeLearned) {
  const auto train = *syntheticCifar100(6000, Part::kTrain);
  const auto test = *syntheticCifar100(1000, Part::kTest);
  EXPECT_EQ(train->classes(), 100);
  const double accuracy = nearestMeanAccuracy(*train, *test);
  EXPECT_GT(accuracy, 0.4);  // Chance: 0.01.
  EXPECT_LT(accuracy, 0.9);
}

// Naive Bayes on triples of letters, as was done for the real families.
double tripleAccuracy(const Dataset& train, const Dataset& test) {
  constexpr std::size_t kTriples = 25 * 25 * 25;
  const auto forEachTriple = [](const Batch& batch, std::size_t sample, auto visit) {
    const std::size_t length = batch[0].shape()[1];
    const auto row = batch[0].as<std::uint8_t>().subspan(sample * length, length);
    for (std::size_t i = 2; i < length && row[i] != 0; ++i) {
      visit((row[i - 2] * 25 + row[i - 1]) * 25 + row[i]);
    }
  };
  std::vector<std::vector<double>> counts(train.classes(), std::vector<double>(kTriples, 0.1));
  const Batch known = readAll(train);
  for (std::int64_t i = 0; i < train.size(); ++i) {
    forEachTriple(known, i, [&](int triple) { ++counts[known[1].as<std::int64_t>()[i]][triple]; });
  }
  for (auto& row : counts) {
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (double& count : row) count = std::log(count / sum);
  }
  double right = 0;
  const Batch unknown = readAll(test);
  for (std::int64_t i = 0; i < test.size(); ++i) {
    std::vector<double> likelihood(counts.size());
    forEachTriple(unknown, i, [&](int triple) {
      for (std::size_t c = 0; c < counts.size(); ++c) likelihood[c] += counts[c][triple];
    });
    const auto guess = std::ranges::max_element(likelihood) - likelihood.begin();
    right += guess == unknown[1].as<std::int64_t>()[i] ? 1 : 0;
  }
  return right / static_cast<double>(test.size());
}

TEST(SyntheticTest, FamiliesCanBeLearned) {
  const auto accuracy = [](std::int64_t length) {
    const ReadOptions options = ofLength(length);
    return tripleAccuracy(**syntheticGpcr(1200, Part::kTrain, kSyntheticSeed, options),
                          **syntheticGpcr(200, Part::kTest, kSyntheticSeed, options));
  };
  EXPECT_GT(accuracy(1000), 0.9);  // Chance: 0.02.
  EXPECT_GT(accuracy(64), 0.4);    // Cut to their beginnings, as small models do.
  EXPECT_LT(accuracy(64), 0.85);
}

TEST(SyntheticTest, SparseFeaturesCanBeLearned) {
  // What each feature's values say on average, added up.
  const auto train = *syntheticLibsvm(5000, 1000, Part::kTrain);
  const auto test = *syntheticLibsvm(1000, 1000, Part::kTest);
  std::vector<double> weights(train->symbols());
  const auto forEachValue = [](const Batch& batch, auto visit) {
    const std::int64_t width = batch[0].shape()[1];
    for (std::int64_t i = 0; i < batch[0].count(); ++i) {
      visit(i / width, batch[0].as<std::int64_t>()[i], batch[1].as<float>()[i]);
    }
  };
  const Batch known = readAll(*train);
  forEachValue(known, [&](std::int64_t sample, std::int64_t feature, float value) {
    weights[feature] += value * (known[2].as<std::int64_t>()[sample] == 1 ? 1 : -1);
  });
  const Batch unknown = readAll(*test);
  std::vector<double> sums(test->size());
  forEachValue(unknown, [&](std::int64_t sample, std::int64_t feature, float value) {
    sums[sample] += value * (weights[feature] > 0 ? 1 : -1);
  });
  double right = 0;
  for (std::int64_t i = 0; i < test->size(); ++i) {
    right += (sums[i] > 0) == (unknown[2].as<std::int64_t>()[i] == 1) ? 1 : 0;
  }
  EXPECT_GT(right / static_cast<double>(test->size()), 0.85);  // Chance: 0.5.
}

TEST(SyntheticTest, TheNextWordCanBeLearned) {
  const auto train = *syntheticText(60'000, 200, Part::kTrain);
  const auto test = *syntheticText(10'000, 200, Part::kTest);
  std::vector<std::vector<int>> followed(200, std::vector<int>(200));
  std::vector<int> frequent(200);
  const Batch known = readAll(*train);
  for (std::int64_t i = 0; i < known[0].count(); ++i) {
    ++followed[known[0].as<std::int64_t>()[i]][known[1].as<std::int64_t>()[i]];
    ++frequent[known[1].as<std::int64_t>()[i]];
  }
  const auto mostFrequent = std::ranges::max_element(frequent) - frequent.begin();
  const Batch unknown = readAll(*test);
  double byWord = 0;
  double byFrequency = 0;
  for (std::int64_t i = 0; i < unknown[0].count(); ++i) {
    const auto& row = followed[unknown[0].as<std::int64_t>()[i]];
    const std::int64_t next = unknown[1].as<std::int64_t>()[i];
    byWord += std::ranges::max_element(row) - row.begin() == next ? 1 : 0;
    byFrequency += mostFrequent == next ? 1 : 0;
  }
  const auto count = static_cast<double>(unknown[0].count());
  EXPECT_GT(byWord / count, 0.35);
  EXPECT_LT(byFrequency / count, 0.25);
  // The frequent words come first, as sampled softmax expects.
  EXPECT_GT(std::accumulate(frequent.begin() + 4, frequent.begin() + 24, 0),
            2 * std::accumulate(frequent.begin() + 24, frequent.end(), 0) / 3);
}

// Contract: the word for the colour of a lonely shape can be seen in its picture.
TEST(SyntheticTest, CaptionsTellWhatIsSeen) {
  const auto set = *syntheticCaptions(600, Part::kTest);
  const auto words = set->words();
  ASSERT_EQ(std::ssize(words), set->classes());
  const Batch batch = readAll(*set);
  const std::int64_t width = batch[1].shape()[1];
  ASSERT_EQ(width, 9);
  int alone = 0;
  int right = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    const auto caption = batch[1].as<std::int64_t>().subspan(i * width, width);
    const std::int64_t length = batch[2].as<std::int64_t>()[i];
    ASSERT_EQ(caption[0], 1);           // <s>
    ASSERT_EQ(caption[length - 1], 2);  // </s>
    for (const std::int64_t word : caption.subspan(length)) ASSERT_EQ(word, 0);
    if (length != 5) continue;
    ++alone;
    const auto middle = [&](int channel) {  // Shapes cover it whatever their place.
      return batch[0].as<float>()[((i * 3 + channel) * 32 + 16) * 32 + 16];
    };
    const bool red = middle(0) > 0.5F;
    const bool green = middle(1) > 0.5F;
    const std::int64_t guess = red && green ? 8 : red ? 5 : green ? 6 : 7;
    right += guess == caption[2] ? 1 : 0;
    const std::string told = red && green ? "yellow" : red ? "red" : green ? "green" : "blue";
    ASSERT_EQ(words[guess], told);
    ASSERT_EQ(words[caption[1]], "a");
  }
  EXPECT_GT(alone, 150);
  EXPECT_GT(right, alone * 9 / 10);
}

}  // namespace
}  // namespace colla::data
