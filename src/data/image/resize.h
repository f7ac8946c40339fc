// Scales images with antialiasing.
//
// Bilinear when enlarging; when shrinking, the triangle under which pixels are averaged grows with
// the factor, so that every pixel of the original counts. This is what Pillow's BILINEAR and
// torch's interpolate(mode="bilinear", antialias=True) do. A pixel's result depends on its image
// alone, and is the same on every machine.
//
// Immutable after construction, safe to share between threads.
#pragma once

#include <cstdint>
#include <vector>

#include "data/image/image.h"

namespace colla::data {

class Resizer {
 public:
  // Sides are at least 1.
  Resizer(ImageSize from, ImageSize to);

  ImageSize from() const { return from_; }
  // All planes of `image`, which has the size from(), into `result`: float32 from 0 to 1. `scratch`
  // is memory to use again.
  void resize(const ImageView& image, float* result, std::vector<float>& scratch) const;

 private:
  // Each result is a weighted sum of `taps` neighbours, of which first[i] is the first.
  struct Axis {
    Axis(std::int64_t from, std::int64_t to, double scale);
    std::int64_t taps = 0;
    std::vector<std::int64_t> first;
    std::vector<float> weights;  // `taps` for each result.
  };
  void resizeRow(const float* row, float* result) const;
  void resizeColumns(const float* rows, float* result) const;

  ImageSize from_;
  ImageSize to_;
  Axis horizontal_;
  Axis vertical_;
};

}  // namespace colla::data
