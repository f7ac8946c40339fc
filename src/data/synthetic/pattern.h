// Pictures of synthetic data sets: a smooth random pattern per class, and noisy views of it.
#pragma once

#include <cstdint>
#include <vector>

#include "colla/random.h"

namespace colla::data {

// Pixels from 0 to 255, row by row.
struct Pattern {
  int side = 0;
  std::vector<int> pixels;
};

// A coarse grid of random heights, interpolated: neighbours are alike, as in pictures. `side` is a
// multiple of 8.
Pattern smoothPattern(int side, Random& random);

// Where a view lies in its pattern, and how strong the pattern is in it.
struct View {
  int x = 0;
  int y = 0;
  int contrast = 256;  // Of 256.
};

// `side` x `side` pixels of `pattern`, `side` a multiple of 4, with much noise.
void drawNoisy(const Pattern& pattern, const View& view, int side, Random& random,
               std::uint8_t* image);

}  // namespace colla::data
