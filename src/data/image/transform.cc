#include "data/image/transform.h"

#include <algorithm>

#include "data/gather.h"

namespace colla::data {
namespace {

std::int64_t randomShift(std::int64_t side, Random& random) {
  const std::int64_t most = side / 8;
  return static_cast<std::int64_t>(random.below(2 * most + 1)) - most;
}

}  // namespace

Crop randomCrop(ImageSize size, Random& random) {
  Crop crop;
  crop.down = randomShift(size.height, random);
  crop.right = randomShift(size.width, random);
  crop.mirror = random.below(2) == 1;
  return crop;
}

void applyCrop(const ImageView& image, const Crop& crop, std::uint8_t* result) {
  const auto [height, width] = image.size;
  // Columns of the original that are still to be seen, and where they begin in the result.
  const std::int64_t begin = std::max<std::int64_t>(crop.right, 0);
  const std::int64_t count = std::max<std::int64_t>(width - std::abs(crop.right), 0);
  const std::int64_t at = std::max<std::int64_t>(-crop.right, 0);
  for (int channel = 0; channel < image.channels; ++channel) {
    const std::uint8_t* plane = image.planes + channel * image.size.pixels();
    for (std::int64_t y = 0; y < height; ++y, result += width) {
      const std::int64_t from = y + crop.down;
      std::fill_n(result, width, std::uint8_t{0});
      if (from < 0 || from >= height) continue;
      std::copy_n(plane + from * width + begin, count, result + at);
      if (crop.mirror) std::reverse(result, result + width);
    }
  }
}

void ImageTransform::apply(const ImageView& image, Random& random, Scratch& scratch,
                           float* result) const {
  ImageView view = image;
  if (augment_) {
    scratch.cropped.resize(image.bytes());
    applyCrop(image, randomCrop(image.size, random), scratch.cropped.data());
    view.planes = scratch.cropped.data();
  }
  if (view.size == output_) {
    scaleToUnit(reinterpret_cast<const std::byte*>(view.planes), view.bytes(), result);
    return;
  }
  if (!scratch.resizer.has_value() || scratch.resizer->from() != view.size) {
    scratch.resizer.emplace(view.size, output_);
  }
  scratch.resizer->resize(view, result, scratch.rows);
}

}  // namespace colla::data
