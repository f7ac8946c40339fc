// Numbers of which the small ones are frequent, as words and features are.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "colla/random.h"

namespace colla::data {

// From 0 to bound - 1, for a bound of 1 or more: [0, 1), [1, 3), [3, 7), … are equally likely, so
// that number i comes about as often as 1/(i + 1) says.
constexpr std::uint64_t logUniform(std::uint64_t bound, Random& random) {
  const std::uint64_t octave = random.below(std::bit_width(bound));
  const std::uint64_t begin = (std::uint64_t{1} << octave) - 1;
  const std::uint64_t end = std::min(2 * begin + 1, bound);
  return begin + random.below(end - begin);
}

}  // namespace colla::data
