#include <array>
#include <string_view>
#include <utility>

#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"
#include "data/text/caption_dataset.h"
#include "data/text/words.h"

namespace colla::data {
namespace {

constexpr int kPictureSide = 32;

// "a red square", "a blue disc above a green cross": the words by number.
enum Word : std::int32_t {
  kA = kFirstWord,
  kRed,
  kGreen,
  kBlue,
  kYellow,
  kSquare,
  kDisc,
  kCross,
  kAbove,
  kBeside,
  kVocabulary
};
constexpr std::array<std::string_view, kVocabulary - kFirstWord> kNames = {
    "a", "red", "green", "blue", "yellow", "square", "disc", "cross", "above", "beside"};
constexpr int kColours = 4;
constexpr int kShapes = 3;
constexpr std::array<std::array<int, kColourChannels>, kColours> kRgb = {
    {{200, 40, 40}, {40, 180, 40}, {50, 60, 210}, {210, 200, 40}}};

struct Thing {
  int colour = 0;
  int shape = 0;
  int radius = 0;
  int x = 0;  // Of its centre.
  int y = 0;

  bool covers(int atX, int atY) const {
    const int right = atX < x ? x - atX : atX - x;
    const int down = atY < y ? y - atY : atY - y;
    switch (shape) {
      case 0:
        return right <= radius && down <= radius;
      case 1:
        return right * right + down * down <= radius * radius;
      default:
        return right <= radius && down <= radius && (3 * right <= radius || 3 * down <= radius);
    }
  }
};

Thing randomThing(int x, int y, Random& random) {
  Thing thing;
  thing.colour = static_cast<int>(random.below(kColours));
  thing.shape = static_cast<int>(random.below(kShapes));
  thing.radius = 4 + static_cast<int>(random.below(3));
  thing.x = x - 2 + static_cast<int>(random.below(5));
  thing.y = y - 2 + static_cast<int>(random.below(5));
  return thing;
}

void name(const Thing& thing, Caption& caption) {
  caption.insert(caption.end(), {kA, kRed + thing.colour, kSquare + thing.shape});
}

// Over what is there already.
void draw(const Thing& thing, Image& image) {
  for (int channel = 0; channel < kColourChannels; ++channel) {
    std::uint8_t* pixel = image.planes.data() + channel * kPictureSide * kPictureSide;
    for (int y = 0; y < kPictureSide; ++y) {
      for (int x = 0; x < kPictureSide; ++x, ++pixel) {
        if (!thing.covers(x, y)) continue;
        // A quarter of the background's noise shines through.
        *pixel = static_cast<std::uint8_t>(kRgb[thing.colour][channel] + (*pixel - 96) / 4);
      }
    }
  }
}

CaptionedImage makeSample(Random& random) {
  CaptionedImage sample;
  sample.image.size = {kPictureSide, kPictureSide};
  sample.image.planes.resize(kColourChannels * kPictureSide * kPictureSide);
  for (std::uint8_t& pixel : sample.image.planes) {
    pixel = static_cast<std::uint8_t>(32 + (random.next() >> 57));  // 32 to 159.
  }
  Caption caption;
  const std::uint64_t kind = random.below(3);  // Alone, above another, or beside it.
  constexpr int kNear = 8;
  constexpr int kFar = kPictureSide - kNear;
  constexpr int kMiddle = kPictureSide / 2;
  const Thing first = kind == 0   ? randomThing(kMiddle, kMiddle, random)
                      : kind == 1 ? randomThing(kMiddle, kNear, random)
                                  : randomThing(kNear, kMiddle, random);
  draw(first, sample.image);
  name(first, caption);
  if (kind > 0) {
    const Thing second =
        kind == 1 ? randomThing(kMiddle, kFar, random) : randomThing(kFar, kMiddle, random);
    draw(second, sample.image);
    caption.push_back(kind == 1 ? kAbove : kBeside);
    name(second, caption);
  }
  sample.captions.push_back(std::move(caption));
  return sample;
}

// Made when they are read: drawing one costs no more than keeping it.
class SyntheticCaptions : public CaptionSource {
 public:
  SyntheticCaptions(std::int64_t samples, Part part, std::uint64_t seed)
      : samples_(samples), part_(part), seed_(seed) {}
  std::int64_t size() const override { return samples_; }
  std::vector<std::string> words() const override {
    std::vector<std::string> words(kSpecialWords.begin(), kSpecialWords.end());
    words.insert(words.end(), kNames.begin(), kNames.end());
    return words;
  }
  bool inMemory() const override { return false; }
  Result<CaptionedImage> read(std::int64_t index) const override {
    Random random(seed_, streamOf(part_), index);
    return makeSample(random);
  }

 private:
  std::int64_t samples_;
  Part part_;
  std::uint64_t seed_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticCaptions(std::int64_t samples, Part part,
                                                         std::uint64_t seed,
                                                         const ReadOptions& options) {
  return captionDataset(syntheticTitle("captions", part),
                        std::make_shared<SyntheticCaptions>(samples, part, seed),
                        {kPictureSide, kPictureSide}, part, options);
}

}  // namespace colla::data
