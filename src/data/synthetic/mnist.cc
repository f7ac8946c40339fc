#include <vector>

#include "data/image/image_dataset.h"
#include "data/synthetic/pattern.h"
#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"

namespace colla::data {
namespace {

constexpr int kClasses = 10;
constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;
constexpr int kMaxShift = 2;

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticMnist(std::int64_t samples, Part part,
                                                      std::uint64_t seed,
                                                      const ReadOptions& options) {
  COLLA_TRY_ASSIGN(const Array images,
                   Array::allocate(DataType::kUInt8, {samples, 1, kSide, kSide}));
  COLLA_TRY_ASSIGN(const Array labels, Array::allocate(DataType::kInt64, {samples}));
  std::vector<Pattern> patterns;
  for (int i = 0; i < kClasses; ++i) {
    Random random(seed, kHidden, i);
    // With a margin all around that shifts may bring into view.
    patterns.push_back(smoothPattern(kSide + 2 * kMaxShift, random));
  }
  for (std::int64_t i = 0; i < samples; ++i) {
    Random random(seed, streamOf(part), i);
    const auto label = static_cast<std::int64_t>(random.below(kClasses));
    labels.as<std::int64_t>()[i] = label;
    View view;
    view.x = static_cast<int>(random.below(2 * kMaxShift + 1));
    view.y = static_cast<int>(random.below(2 * kMaxShift + 1));
    view.contrast = 96 + static_cast<int>(random.below(129));
    drawNoisy(patterns[label], view, kSide, random, images.as<std::uint8_t>().data() + i * kPixels);
  }
  return imageDataset(syntheticTitle("mnist", part), images, labels, kClasses, part, options);
}

}  // namespace colla::data
