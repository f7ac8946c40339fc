#include "data/synthetic/pattern.h"

#include <algorithm>

namespace colla::data {

Pattern smoothPattern(int side, Random& random) {
  constexpr int kCell = 8;
  const int grid = side / kCell + 1;
  std::vector<int> heights(grid * grid);
  for (int& height : heights) height = static_cast<int>(random.below(256));
  Pattern pattern{side, std::vector<int>(side * side)};
  for (int y = 0; y < side; ++y) {
    const int* above = heights.data() + y / kCell * grid;
    const int* below = above + grid;
    const int down = y % kCell;
    for (int x = 0; x < side; ++x) {
      const int right = x % kCell;
      const int left = x / kCell;
      const int top = above[left] * (kCell - right) + above[left + 1] * right;
      const int bottom = below[left] * (kCell - right) + below[left + 1] * right;
      pattern.pixels[y * side + x] = (top * (kCell - down) + bottom * down) / (kCell * kCell);
    }
  }
  return pattern;
}

void drawNoisy(const Pattern& pattern, const View& view, int side, Random& random,
               std::uint8_t* image) {
  for (int y = 0; y < side; ++y) {
    const int* row = pattern.pixels.data() + (y + view.y) * pattern.side + view.x;
    for (int x = 0; x < side; x += 4) {
      std::uint64_t bits = random.next();  // 16 for each of four pixels.
      for (int i = 0; i < 4; ++i, bits >>= 16) {
        // The sum of two bytes: a triangle from -255 to 255.
        const int noise = static_cast<int>(bits & 255) + static_cast<int>(bits >> 8 & 255) - 255;
        const int value = 128 + ((row[x + i] - 128) * view.contrast / 256) + noise;
        *image++ = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }
}

}  // namespace colla::data
