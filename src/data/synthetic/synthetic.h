// Data sets made from a seed, with something to learn in them, for tests, demonstrations and
// benchmarks on machines without data.
//
// The same on every machine: integers and single roundings only, no library functions. Sample i is
// the same whatever the size of the set; both parts come from one hidden truth.
#pragma once

#include <cstdint>
#include <memory>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// The data does not change with the seed of a training, as real data would not.
inline constexpr std::uint64_t kSyntheticSeed = 1;

// `options` as far as the set can fulfil them; openDataset() refuses others before.

// Images as MNIST's: each of ten classes has a smooth random pattern, each sample is the pattern of
// its class, shifted by up to two pixels, with another contrast and much noise.
Result<std::shared_ptr<const Dataset>> syntheticMnist(std::int64_t samples, Part part,
                                                      std::uint64_t seed = kSyntheticSeed,
                                                      const ReadOptions& options = {});

// Images as CIFAR-10's, made the same way, with a pattern for each colour, shifted by up to four
// pixels.
Result<std::shared_ptr<const Dataset>> syntheticCifar10(std::int64_t samples, Part part,
                                                        std::uint64_t seed = kSyntheticSeed,
                                                        const ReadOptions& options = {});

// The same with a hundred classes.
Result<std::shared_ptr<const Dataset>> syntheticCifar100(std::int64_t samples, Part part,
                                                         std::uint64_t seed = kSyntheticSeed,
                                                         const ReadOptions& options = {});

// Two classes for logistic regression, dense float32 features in about [-1, 1]: noise, shifted to
// one or the other side along a hidden vector of weights, so far that the best that any
// classifier can reach is 97.7 % (two standard deviations).
Result<std::shared_ptr<const Dataset>> syntheticLr(std::int64_t samples, std::int64_t features,
                                                   Part part, std::uint64_t seed = kSyntheticSeed);

// The same with sparse features: 16 to 48 draws of features of which the first are frequent. Each
// speaks for one of the two classes, and is right two times out of three.
Result<std::shared_ptr<const Dataset>> syntheticLibsvm(std::int64_t samples, std::int64_t features,
                                                       Part part,
                                                       std::uint64_t seed = kSyntheticSeed);

// Proteins of 48 families, 150 to 450 letters: four hidden motifs of 12 letters for each family,
// of which three of eight letters have changed, scattered over noise.
Result<std::shared_ptr<const Dataset>> syntheticGpcr(std::int64_t samples, Part part,
                                                     std::uint64_t seed = kSyntheticSeed,
                                                     const ReadOptions& options = {});

// A text of sentences of 5 to 24 words, the frequent ones first in the vocabulary (5 words or more,
// with the four special ones). Each word has followers that it prefers.
Result<std::shared_ptr<const Dataset>> syntheticText(std::int64_t words, std::int64_t vocabulary,
                                                     Part part, std::uint64_t seed = kSyntheticSeed,
                                                     const ReadOptions& options = {});

// Pictures of 32 x 32 pixels of one or two coloured shapes, with captions that tell what and where:
// "a red square", "a blue disc above a green cross".
Result<std::shared_ptr<const Dataset>> syntheticCaptions(std::int64_t samples, Part part,
                                                         std::uint64_t seed = kSyntheticSeed,
                                                         const ReadOptions& options = {});

}  // namespace colla::data
