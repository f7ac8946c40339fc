#include <array>
#include <vector>

#include "data/sequence/letters.h"
#include "data/sequence/sequence_dataset.h"
#include "data/synthetic/streams.h"
#include "data/synthetic/synthetic.h"

namespace colla::data {
namespace {

constexpr int kFamilies = 48;
constexpr int kMotifs = 4;  // Of each family.
using Motif = std::array<std::uint8_t, 12>;

std::uint8_t aminoAcid(Random& random) {
  return static_cast<std::uint8_t>(1 + random.below(kAminoAcids.size()));
}

// Now and then it is not known for sure.
std::uint8_t anyLetter(Random& random) {
  if (random.below(256) > 0) return aminoAcid(random);
  return static_cast<std::uint8_t>(kFirstAmbiguous + random.below(kLetters - kFirstAmbiguous));
}

// Stretches of noise with motifs of the family between them, all along, so that a sequence that is
// cut still has some. Evolution has changed three of eight letters.
void makeSequence(std::span<const Motif> motifs, Random& random,
                  std::vector<std::uint8_t>& letters) {
  const std::size_t length = 150 + random.below(301);
  letters.clear();
  while (letters.size() < length) {
    const std::uint64_t gap = random.below(24);
    for (std::uint64_t i = 0; i < gap; ++i) letters.push_back(anyLetter(random));
    for (const std::uint8_t letter : motifs[random.below(kMotifs)]) {
      letters.push_back(random.below(8) < 3 ? anyLetter(random) : letter);
    }
  }
  letters.resize(length);
}

}  // namespace

Result<std::shared_ptr<const Dataset>> syntheticGpcr(std::int64_t samples, Part part,
                                                     std::uint64_t seed,
                                                     const ReadOptions& options) {
  std::array<std::array<Motif, kMotifs>, kFamilies> motifs{};
  for (int family = 0; family < kFamilies; ++family) {
    Random random(seed, kHidden, family);
    for (Motif& motif : motifs[family]) {
      for (std::uint8_t& letter : motif) letter = aminoAcid(random);
    }
  }
  SequenceRows rows(options.length);
  std::vector<std::uint8_t> letters;
  for (std::int64_t i = 0; i < samples; ++i) {
    Random random(seed, streamOf(part), i);
    const auto family = static_cast<std::int64_t>(random.below(kFamilies));
    makeSequence(motifs[family], random, letters);
    rows.add(letters, family);
  }
  return rows.dataset(syntheticTitle("gpcr", part), kFamilies);
}

}  // namespace colla::data
