#include <cmath>
#include <utility>
#include <vector>

#include "colla/array_dataset.h"
#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"

namespace colla::data {
namespace {

// Uniform noise in [-1, 1) has a standard deviation of 1/sqrt(3). Shifts of two of those along a
// vector of `features` weights of one size; sqrt and division are the same everywhere.
float weightSize(std::int64_t features) {
  return static_cast<float>(2.0 / std::sqrt(3.0 * static_cast<double>(features)));
}

// In [-1, 1), a multiple of 2^-23, from the upper 24 of 32 bits.
float noiseOf(std::uint32_t bits) {
  return static_cast<float>(static_cast<std::int32_t>(bits >> 8) - (1 << 23)) * 0x1p-23F;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticLr(std::int64_t samples, std::int64_t features,
                                                   Part part, std::uint64_t seed) {
  COLLA_TRY_ASSIGN(const Array rows, Array::allocate(DataType::kFloat32, {samples, features}));
  COLLA_TRY_ASSIGN(const Array labels, Array::allocate(DataType::kInt64, {samples}));

  Random hidden(seed, kHidden, 0);
  const float size = weightSize(features);
  std::vector<float> weights(features);
  for (float& weight : weights) weight = hidden.below(2) == 0 ? -size : size;

  float* row = rows.as<float>().data();
  for (std::int64_t i = 0; i < samples; ++i, row += features) {
    Random random(seed, streamOf(part), i);
    const auto label = static_cast<std::int64_t>(random.below(2));
    labels.as<std::int64_t>()[i] = label;
    const float side = label == 0 ? -1.0F : 1.0F;
    std::int64_t j = 0;
    for (; j + 1 < features; j += 2) {
      const std::uint64_t bits = random.next();
      row[j] = noiseOf(static_cast<std::uint32_t>(bits)) + side * weights[j];
      row[j + 1] = noiseOf(static_cast<std::uint32_t>(bits >> 32)) + side * weights[j + 1];
    }
    if (j < features) {
      row[j] = noiseOf(static_cast<std::uint32_t>(random.next())) + side * weights[j];
    }
  }
  COLLA_TRY_ASSIGN(auto dataset, ArrayDataset::create(syntheticTitle("lr", part),
                                                      {{"features", rows}, {"label", labels}}, 2));
  return std::shared_ptr<const Dataset>(std::move(dataset));
}

}  // namespace colla::data
