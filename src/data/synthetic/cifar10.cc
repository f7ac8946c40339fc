#include <array>
#include <vector>

#include "data/image/image_dataset.h"
#include "data/synthetic/pattern.h"
#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"

namespace colla::data {
namespace {

constexpr int kClasses = 10;
constexpr int kChannels = 3;
constexpr int kSide = 32;
constexpr int kPixels = kSide * kSide;
constexpr int kMaxShift = 4;

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticCifar10(std::int64_t samples, Part part,
                                                        std::uint64_t seed,
                                                        const ReadOptions& options) {
  COLLA_TRY_ASSIGN(const Array images,
                   Array::allocate(DataType::kUInt8, {samples, kChannels, kSide, kSide}));
  COLLA_TRY_ASSIGN(const Array labels, Array::allocate(DataType::kInt64, {samples}));
  // One pattern per class and channel: the colours of a class change across its pictures.
  std::vector<Pattern> patterns;
  for (int i = 0; i < kClasses * kChannels; ++i) {
    Random random(seed, kHidden, i);
    patterns.push_back(smoothPattern(kSide + 2 * kMaxShift, random));
  }
  std::uint8_t* image = images.as<std::uint8_t>().data();
  for (std::int64_t i = 0; i < samples; ++i) {
    Random random(seed, streamOf(part), i);
    const auto label = static_cast<std::int64_t>(random.below(kClasses));
    labels.as<std::int64_t>()[i] = label;
    View view;
    view.x = static_cast<int>(random.below(2 * kMaxShift + 1));
    view.y = static_cast<int>(random.below(2 * kMaxShift + 1));
    // Weak or strong, and sometimes so weak that not much can be told.
    view.contrast = 16 + static_cast<int>(random.below(113));
    for (int channel = 0; channel < kChannels; ++channel, image += kPixels) {
      drawNoisy(patterns[label * kChannels + channel], view, kSide, random, image);
    }
  }
  return imageDataset(syntheticTitle("cifar10", part), images, labels, kClasses, part, options);
}

}  // namespace colla::data
