// The canonical sum from its definition, and values that make a wrong order visible.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "colla/slices.h"
#include "collective/sixteen_bits.h"

namespace colla::test {

template <typename T>
using Values = std::vector<std::vector<T>>;  // [slice][element]

// The sum of a range of slices, from the definition: 16-bit floats are added as float32.
template <typename T>
auto reference(const Values<T>& values, SliceRange range, std::size_t element)
    -> decltype(numberOf(T{})) {
  if (range.size() == 1) return 0.0f + numberOf(values[range.begin][element]);
  const int middle = splitPoint(range);
  return reference(values, {range.begin, middle}, element) +
         reference(values, {middle, range.end}, element);
}

// Divided, and rounded once.
template <typename T>
std::vector<T> reference(const Values<T>& values, SliceRange range, int divisor = 1) {
  std::vector<T> sum(values[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = elementOf<T>(reference(values, range, i) / static_cast<float>(divisor));
  }
  return sum;
}

// Values that make a wrong order visible: magnitudes far apart, subnormals, zeros of both signs.
// From a table, of a length that no algorithm cuts at, because there are many of them.
template <typename T>
Values<T> awkward(int slices, std::size_t count, unsigned seed) {
  constexpr bool kHalf = std::is_same_v<T, Float16>;
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-2, 2);
  std::vector<T> table(std::min<std::size_t>(count * slices, 10'007));
  for (T& value : table) {
    switch (random() % 8) {
      case 0:
        value = elementOf<T>(-0.0f);
        break;
      case 1:
        value = elementOf<T>(std::ldexp(mantissa(random), kHalf ? -20 : -140));
        break;
      default:
        value = elementOf<T>(
            std::ldexp(mantissa(random), kHalf ? static_cast<int>(random() % 16) - 8
                                               : static_cast<int>(random() % 40) - 20));
    }
  }
  Values<T> values(slices, std::vector<T>(count));
  std::size_t next = 0;
  for (auto& slice : values) {
    for (T& value : slice) value = table[next++ % table.size()];
  }
  return values;
}

template <typename T>
bool sameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

}  // namespace colla::test
