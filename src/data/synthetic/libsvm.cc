#include <algorithm>
#include <utility>
#include <vector>

#include "data/sparse/sparse_dataset.h"
#include "data/synthetic/log_uniform.h"
#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"

namespace colla::data {
namespace {

// In (0, 1], a multiple of 1/256.
float magnitude(Random& random) { return static_cast<float>(1 + random.below(256)) * 0x1p-8F; }

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticLibsvm(std::int64_t samples, std::int64_t features,
                                                       Part part, std::uint64_t seed) {
  SparseRows rows;
  std::vector<std::int32_t> drawn;
  for (std::int64_t i = 0; i < samples; ++i) {
    Random random(seed, streamOf(part), i);
    const auto label = static_cast<std::int64_t>(random.below(2));
    const std::uint64_t count = 16 + random.below(33);
    drawn.clear();
    for (std::uint64_t j = 0; j < count; ++j) {
      drawn.push_back(static_cast<std::int32_t>(logUniform(features, random)));
    }
    std::ranges::sort(drawn);
    drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
    for (const std::int32_t feature : drawn) {
      // Each feature speaks for one of the classes, and tells the truth two times out of three.
      const bool forOne = (streamSeed(seed, kHidden, feature) & 1) == 1;
      const bool truth = random.below(3) > 0;
      const bool positive = (forOne == (label == 1)) == truth;
      rows.add(feature, positive ? magnitude(random) : -magnitude(random));
    }
    rows.end(label);
  }
  return sparseDataset(syntheticTitle("libsvm", part), std::move(rows), features, {"0", "1"});
}

}  // namespace colla::data
