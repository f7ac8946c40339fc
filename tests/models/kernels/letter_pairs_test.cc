#include "models/kernels/letter_pairs.h"

#include <gtest/gtest.h>

#include "models/kernels/samples.h"

namespace colla::models::kernels {
namespace {

// The same in the plain way: the class vectors of every window, and their products.
TEST(LetterPairsTest, MomentsAreThoseOfAllWindows) {
  std::mt19937 random(8);
  for (const auto& [length, longest] : {std::pair{30, 6}, std::pair{13, 9}, std::pair{5, 5}}) {
    const Samples samples = randomSamples(random, 4, length);
    const LetterPairs pairs(samples.made(), longest);
    for (int window = 1; window <= longest; ++window) {
      const int width = kClasses * window;
      std::vector<std::vector<double>> all;
      for (int i = 0; i < samples.samples; ++i) {
        for (int start = 0; start + window <= length; ++start) {
          auto& x = all.emplace_back(width);
          for (int k = 0; k < window; ++k) {
            const auto vector = classVector(samples.at(i, start + k));
            for (int c = 0; c < kClasses; ++c) x[c * window + k] = vector[c];
          }
        }
      }
      const auto count = double(all.size());
      EXPECT_EQ(pairs.windows(window), std::ssize(all));
      std::vector<double> sums(width), products(width * width);
      for (const auto& x : all) {
        for (int i = 0; i < width; ++i) sums[i] += x[i];
      }
      for (const auto& x : all) {
        for (int i = 0; i < width; ++i) {
          for (int j = 0; j < width; ++j) {
            products[i * width + j] += (x[i] - sums[i] / count) * (x[j] - sums[j] / count);
          }
        }
      }
      std::vector<double> foundSums(width), found(width * width);
      pairs.moments(window, foundSums.data(), found.data());
      EXPECT_EQ(foundSums, sums);
      for (int i = 0; i < width * width; ++i) {
        ASSERT_NEAR(found[i], products[i], 1e-10) << "window " << window << " of " << length;
        ASSERT_EQ(found[i], found[i % width * width + i / width]);
      }
      std::vector<float> floatSums(width), floats(width * width);
      pairs.moments(window, floatSums.data(), floats.data());
      for (int i = 0; i < width * width; ++i) ASSERT_EQ(floats[i], static_cast<float>(found[i]));
    }
  }
}

}  // namespace
}  // namespace colla::models::kernels
