// Sixteen-bit floats from their definition, slow and plain, to compare with.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "colla/data_type.h"

namespace colla::test {

// A sixteen-bit float by its fields.
inline double valueOf(std::uint16_t bits, int exponentBits, int mantissaBits) {
  const int bias = (1 << (exponentBits - 1)) - 1;
  const int exponent = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
  const int mantissa = bits & ((1 << mantissaBits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1 << mantissaBits), exponent - bias - mantissaBits);
}

// The nearest sixteen-bit float, ties to even, found by looking at all neighbours' values.
inline std::uint16_t roundTo(double value, int exponentBits, int mantissaBits) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  const int infinity = ((1 << exponentBits) - 1) << mantissaBits;
  int low = 0, high = infinity;  // Magnitudes are ordered as their bits are.
  while (low + 1 < high) {
    const int middle = (low + high) / 2;
    (valueOf(static_cast<std::uint16_t>(middle), exponentBits, mantissaBits) <= magnitude ? low
                                                                                          : high) =
        middle;
  }
  const double below = valueOf(static_cast<std::uint16_t>(low), exponentBits, mantissaBits);
  // Beyond the largest number the next one counts as if the exponent went on.
  const double above = high == infinity
                           ? below + std::ldexp(1, (1 << (exponentBits - 1)) - 1 - mantissaBits)
                           : valueOf(static_cast<std::uint16_t>(high), exponentBits, mantissaBits);
  const double down = magnitude - below, up = above - magnitude;
  const int nearest = down < up || (down == up && low % 2 == 0) ? low : high;
  return static_cast<std::uint16_t>(nearest | sign);
}

// An element as a number, exactly, and the element nearest to one.
template <Element T>
auto numberOf(T value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return static_cast<float>(valueOf(value.bits, 8, 7));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return static_cast<float>(valueOf(value.bits, 5, 10));
  } else {
    return value;
  }
}
template <Element T, typename N>
T elementOf(N number) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {roundTo(number, 8, 7)};
  } else if constexpr (std::is_same_v<T, Float16>) {
    return {roundTo(number, 5, 10)};
  } else {
    return static_cast<T>(number);
  }
}

}  // namespace colla::test
