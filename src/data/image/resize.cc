// Two passes: first every row is scaled to its new width, then rows are mixed into new rows. The
// second one, which does most of the work when enlarging, runs along rows, so that it vectorises.
#include "data/image/resize.h"

#include <algorithm>
#include <cmath>

namespace colla::data {

Resizer::Axis::Axis(std::int64_t from, std::int64_t to, double scale) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(step, 1.0);  // Half of the triangle's width.
  // No more pixel centres than this lie inside of a triangle.
  taps = std::min(from, static_cast<std::int64_t>(std::ceil(2 * support)));
  first.resize(to);
  weights.resize(to * taps);
  std::vector<double> exact(taps);
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    // The first pixel whose centre lies inside; near the end, as far left as keeps all taps in the
    // image.
    const auto begin = static_cast<std::int64_t>(std::floor(centre - support - 0.5)) + 1;
    first[i] = std::clamp<std::int64_t>(begin, 0, from - taps);
    double sum = 0;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const double distance = std::abs(static_cast<double>(first[i] + tap) + 0.5 - centre);
      exact[tap] = std::max(0.0, 1.0 - distance / support);
      sum += exact[tap];
    }
    // What lies outside of the image does not count: the rest makes up for it.
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      weights[i * taps + tap] = static_cast<float>(exact[tap] / sum * scale);
    }
  }
}

Resizer::Resizer(ImageSize from, ImageSize to)
    : from_(from),
      to_(to),
      horizontal_(from.width, to.width, 1.0),
      vertical_(from.height, to.height, 1.0 / 255.0) {}

void Resizer::resize(const ImageView& image, float* result, std::vector<float>& scratch) const {
  scratch.resize(from_.width + from_.height * to_.width);
  float* const row = scratch.data();
  float* const rows = row + from_.width;
  for (int channel = 0; channel < image.channels; ++channel) {
    const std::uint8_t* plane = image.planes + channel * from_.pixels();
    for (std::int64_t y = 0; y < from_.height; ++y) {
      for (std::int64_t x = 0; x < from_.width; ++x) row[x] = plane[y * from_.width + x];
      resizeRow(row, rows + y * to_.width);
    }
    resizeColumns(rows, result + channel * to_.pixels());
  }
}

void Resizer::resizeRow(const float* row, float* result) const {
  const std::int64_t taps = horizontal_.taps;
  const float* weight = horizontal_.weights.data();
  if (taps == 2) {  // Enlarging. The same sums as below, without a loop in the loop.
    for (std::int64_t x = 0; x < to_.width; ++x, weight += 2) {
      const float* pixel = row + horizontal_.first[x];
      result[x] = pixel[0] * weight[0] + pixel[1] * weight[1];
    }
    return;
  }
  for (std::int64_t x = 0; x < to_.width; ++x, weight += taps) {
    const float* pixel = row + horizontal_.first[x];
    float sum = pixel[0] * weight[0];
    for (std::int64_t tap = 1; tap < taps; ++tap) sum += pixel[tap] * weight[tap];
    result[x] = sum;
  }
}

void Resizer::resizeColumns(const float* rows, float* result) const {
  const std::int64_t taps = vertical_.taps;
  const std::int64_t width = to_.width;
  for (std::int64_t y = 0; y < to_.height; ++y, result += width) {
    const float* row = rows + vertical_.first[y] * width;
    const float* weight = vertical_.weights.data() + y * taps;
    if (taps == 2) {  // As above.
      const float* below = row + width;
      for (std::int64_t x = 0; x < width; ++x) {
        result[x] = std::min(row[x] * weight[0] + below[x] * weight[1], 1.0F);
      }
      continue;
    }
    for (std::int64_t x = 0; x < width; ++x) result[x] = row[x] * weight[0];
    for (std::int64_t tap = 1; tap < taps; ++tap) {
      row += width;
      for (std::int64_t x = 0; x < width; ++x) result[x] += row[x] * weight[tap];
    }
    // Rounding may have gone beyond white by a bit.
    for (std::int64_t x = 0; x < width; ++x) result[x] = std::min(result[x], 1.0F);
  }
}

}  // namespace colla::data
