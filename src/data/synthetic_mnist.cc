#include <algorithm>
#include <array>
#include <utility>

#include "colla/array_dataset.h"
#include "data/synthetic.h"

namespace colla::data {
namespace {

constexpr int kClasses = 10;
constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;
constexpr int kMaxShift = 2;
// Streams of the seed: one for the patterns, one per sample of each part.
constexpr std::uint64_t kPatterns = 0;
constexpr std::uint64_t streamOf(Part part) { return part == Part::kTrain ? 1 : 2; }

// Pixels from 0 to 255, with a margin all around that shifts may bring into view.
constexpr int kPatternSide = kSide + 2 * kMaxShift;
using Pattern = std::array<std::array<int, kPatternSide>, kPatternSide>;

// A coarse grid of random heights, interpolated: neighbours are alike, as in pictures.
Pattern makePattern(Random& random) {
  constexpr int kCell = 8;
  constexpr int kGrid = kPatternSide / kCell + 1;
  std::array<std::array<int, kGrid>, kGrid> heights{};
  for (auto& row : heights) {
    for (int& height : row) height = static_cast<int>(random.below(256));
  }
  Pattern pattern{};
  for (int y = 0; y < kPatternSide; ++y) {
    for (int x = 0; x < kPatternSide; ++x) {
      const auto& above = heights[y / kCell];
      const auto& below = heights[y / kCell + 1];
      const int right = x % kCell;
      const int down = y % kCell;
      const int left = x / kCell;
      const int top = above[left] * (kCell - right) + above[left + 1] * right;
      const int bottom = below[left] * (kCell - right) + below[left + 1] * right;
      pattern[y][x] = (top * (kCell - down) + bottom * down) / (kCell * kCell);
    }
  }
  return pattern;
}

void makeImage(const Pattern& pattern, Random& random, std::uint8_t* image) {
  const auto shiftX = static_cast<int>(random.below(2 * kMaxShift + 1));
  const auto shiftY = static_cast<int>(random.below(2 * kMaxShift + 1));
  const int contrast = 96 + static_cast<int>(random.below(129));  // Of 256.
  for (int y = 0; y < kSide; ++y) {
    const int* row = pattern[y + shiftY].data() + shiftX;
    static_assert(kSide % 4 == 0);
    for (int x = 0; x < kSide; x += 4) {
      std::uint64_t bits = random.next();  // 16 for each of four pixels.
      for (int i = 0; i < 4; ++i, bits >>= 16) {
        // The sum of two bytes: a triangle from -255 to 255.
        const int noise = static_cast<int>(bits & 255) + static_cast<int>(bits >> 8 & 255) - 255;
        const int value = 128 + ((row[x + i] - 128) * contrast / 256) + noise;
        *image++ = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }
}

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticMnist(std::int64_t samples, Part part,
                                                      std::uint64_t seed) {
  COLLA_TRY_ASSIGN(const Array images,
                   Array::allocate(DataType::kUInt8, {samples, 1, kSide, kSide}));
  COLLA_TRY_ASSIGN(const Array labels, Array::allocate(DataType::kInt64, {samples}));
  std::array<Pattern, kClasses> patterns{};
  for (int i = 0; i < kClasses; ++i) {
    Random random(seed, kPatterns, i);
    patterns[i] = makePattern(random);
  }
  for (std::int64_t i = 0; i < samples; ++i) {
    Random random(seed, streamOf(part), i);
    const auto label = static_cast<std::int64_t>(random.below(kClasses));
    labels.as<std::int64_t>()[i] = label;
    makeImage(patterns[label], random, images.as<std::uint8_t>().data() + i * kPixels);
  }
  std::string title = "synthetic:mnist, " + std::string(toString(part)) + " part";
  COLLA_TRY_ASSIGN(auto dataset,
                   ArrayDataset::create(std::move(title),
                                        {{"image", images, true}, {"label", labels}}, kClasses));
  return std::shared_ptr<const Dataset>(std::move(dataset));
}

}  // namespace colla::data
