// What happens to an image on its way into a batch: cropped and flipped at random where that is
// asked for, scaled, and given out as float32 from 0 to 1.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "colla/random.h"
#include "data/image/image.h"
#include "data/image/resize.h"

namespace colla::data {

// Where the crop lies: an image is padded with black by an eighth of each side (4 pixels for
// CIFAR's 32) and cut to its size again, and then mirrored or not.
struct Crop {
  std::int64_t down = 0;   // Rows cut off at the top; negative: black ones put there.
  std::int64_t right = 0;  // The same for columns on the left.
  bool mirror = false;
  friend bool operator==(const Crop&, const Crop&) = default;
};
// Draws three numbers.
Crop randomCrop(ImageSize size, Random& random);
// `result` has room for an image of the same size.
void applyCrop(const ImageView& image, const Crop& crop, std::uint8_t* result);

// Immutable, safe to share between threads; the Scratch is the caller's.
class ImageTransform {
 public:
  // Memory, and what was found out about the last image's size, to be used again.
  struct Scratch {
    std::vector<std::uint8_t> cropped;
    std::vector<float> rows;
    std::optional<Resizer> resizer;
  };

  // Images become `output` in size.
  ImageTransform(ImageSize output, bool augment) : output_(output), augment_(augment) {}

  ImageSize output() const { return output_; }
  // Takes numbers from `random` only where it augments.
  void apply(const ImageView& image, Random& random, Scratch& scratch, float* result) const;

 private:
  ImageSize output_;
  bool augment_;
};

}  // namespace colla::data
