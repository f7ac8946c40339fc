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

// Images as MNIST's: each of ten classes has a smooth random pattern, each sample is the pattern of
// its class, shifted by up to two pixels, with another contrast and much noise.
Result<std::shared_ptr<const Dataset>> syntheticMnist(std::int64_t samples, Part part,
                                                      std::uint64_t seed = kSyntheticSeed);

// Two classes for logistic regression, dense float32 features in about [-1, 1]: noise, shifted to
// one or the other side along a hidden vector of weights, so far that the best that any
// classifier can reach is 97.7 % (two standard deviations).
Result<std::shared_ptr<const Dataset>> syntheticLr(std::int64_t samples, std::int64_t features,
                                                   Part part, std::uint64_t seed = kSyntheticSeed);

}  // namespace colla::data
