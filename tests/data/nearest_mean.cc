#include "data/nearest_mean.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace colla::data {
namespace {

template <typename Visit>
void forEachSample(const Dataset& dataset, Visit visit) {
  constexpr std::int64_t kBatch = 100;
  Random random(0);
  for (std::int64_t first = 0; first < dataset.size(); first += kBatch) {
    std::vector<std::int64_t> indices(std::min(kBatch, dataset.size() - first));
    std::iota(indices.begin(), indices.end(), first);
    const auto batch = dataset.read(indices, random);
    ASSERT_TRUE(batch.ok()) << batch.status();
    const auto inputs = (*batch)[0].as<float>();
    const auto labels = (*batch)[1].as<std::int64_t>();
    const std::size_t width = inputs.size() / labels.size();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      visit(inputs.subspan(i * width, width), labels[i]);
    }
  }
}

}  // namespace

double nearestMeanAccuracy(const Dataset& train, const Dataset& test) {
  std::vector<std::vector<double>> means(train.classes());
  std::vector<double> counts(train.classes());
  forEachSample(train, [&](std::span<const float> input, std::int64_t label) {
    means[label].resize(input.size());
    for (std::size_t i = 0; i < input.size(); ++i) means[label][i] += input[i];
    ++counts[label];
  });
  for (std::size_t label = 0; label < means.size(); ++label) {
    for (double& value : means[label]) value /= counts[label];
  }

  double right = 0;
  forEachSample(test, [&](std::span<const float> input, std::int64_t label) {
    double best = std::numeric_limits<double>::max();
    std::int64_t guess = -1;
    for (std::size_t candidate = 0; candidate < means.size(); ++candidate) {
      double distance = 0;
      for (std::size_t i = 0; i < means[candidate].size(); ++i) {
        const double difference = input[i] - means[candidate][i];
        distance += difference * difference;
      }
      if (distance < best) {
        best = distance;
        guess = static_cast<std::int64_t>(candidate);
      }
    }
    right += guess == label ? 1 : 0;
  });
  return right / static_cast<double>(test.size());
}

}  // namespace colla::data
