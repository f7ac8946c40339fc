#include <string_view>
#include <vector>

#include "data/image/image_dataset.h"
#include "data/synthetic/pattern.h"
#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"

namespace colla::data {
namespace {

struct Images {
  std::string_view name;
  int classes;
  int channels;
  int side;
  int maxShift;
  int leastContrast;  // Of 256.
  int contrasts;
};

constexpr Images kMnist = {.name = "mnist",
                           .classes = 10,
                           .channels = 1,
                           .side = 28,
                           .maxShift = 2,
                           .leastContrast = 96,
                           .contrasts = 129};
// Weak or strong, and sometimes so weak that not much can be told.
constexpr Images kCifar10 = {.name = "cifar10",
                             .classes = 10,
                             .channels = 3,
                             .side = 32,
                             .maxShift = 4,
                             .leastContrast = 16,
                             .contrasts = 113};
constexpr Images kCifar100 = [] {
  Images set = kCifar10;
  set.name = "cifar100";
  set.classes = 100;
  return set;
}();

Result<std::shared_ptr<const Dataset>> make(const Images& set, std::int64_t samples, Part part,
                                            std::uint64_t seed, const ReadOptions& options) {
  COLLA_TRY_ASSIGN(const Array images,
                   Array::allocate(DataType::kUInt8, {samples, set.channels, set.side, set.side}));
  COLLA_TRY_ASSIGN(const Array labels, Array::allocate(DataType::kInt64, {samples}));
  // One for each class and channel: the colours of a class change across its pictures. With a
  // margin all around that shifts may bring into view.
  std::vector<Pattern> patterns;
  for (int i = 0; i < set.classes * set.channels; ++i) {
    Random random(seed, kHidden, i);
    patterns.push_back(smoothPattern(set.side + 2 * set.maxShift, random));
  }
  std::uint8_t* image = images.as<std::uint8_t>().data();
  for (std::int64_t i = 0; i < samples; ++i) {
    Random random(seed, streamOf(part), i);
    const auto label = static_cast<std::int64_t>(random.below(set.classes));
    labels.as<std::int64_t>()[i] = label;
    View view;
    view.x = static_cast<int>(random.below(2 * set.maxShift + 1));
    view.y = static_cast<int>(random.below(2 * set.maxShift + 1));
    view.contrast = set.leastContrast + static_cast<int>(random.below(set.contrasts));
    for (int channel = 0; channel < set.channels; ++channel, image += set.side * set.side) {
      drawNoisy(patterns[label * set.channels + channel], view, set.side, random, image);
    }
  }
  return imageDataset(syntheticTitle(set.name, part), images, labels, set.classes, part, options);
}

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticMnist(std::int64_t samples, Part part,
                                                      std::uint64_t seed,
                                                      const ReadOptions& options) {
  return make(kMnist, samples, part, seed, options);
}

Result<std::shared_ptr<const Dataset>> syntheticCifar10(std::int64_t samples, Part part,
                                                        std::uint64_t seed,
                                                        const ReadOptions& options) {
  return make(kCifar10, samples, part, seed, options);
}

Result<std::shared_ptr<const Dataset>> syntheticCifar100(std::int64_t samples, Part part,
                                                         std::uint64_t seed,
                                                         const ReadOptions& options) {
  return make(kCifar100, samples, part, seed, options);
}

}  // namespace colla::data
