// Elements as numbers to compute with: 16-bit floats as float32, rounded to nearest, ties to even,
// when they are stored; everything else as it is.
//
// In an unnamed namespace, because kernels include it once per instruction set and the linker must
// not mix the versions up. No branches and no calls, for the compiler's vectoriser.
#pragma once

#include <bit>
#include <cstdint>

#include "colla/data_type.h"

namespace colla::collective {
namespace {

// How a stored element becomes a number to compute with, and back.
template <typename T>
struct Convert {
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

template <>
struct Convert<BFloat16> {
  static float load(BFloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
  }
  static BFloat16 store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const std::uint32_t quietNan = (bits >> 16) | 0x40;
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return {static_cast<std::uint16_t>(nan ? quietNan : rounded)};
  }
};

template <>
struct Convert<Float16> {
  // Exponent and mantissa move into place as an integer; one multiplication by 2^112 corrects
  // the bias and normalises subnormals. Exact.
  static float load(Float16 value) {
    const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000) << 16;
    const std::uint32_t rest = static_cast<std::uint32_t>(value.bits & 0x7fff) << 13;
    const float scaled = std::bit_cast<float>(rest) * 0x1p112f;
    const std::uint32_t special = rest | 0x7f800000;  // Infinity and NaN.
    const std::uint32_t magnitude =
        rest >= 0x0f800000 ? special : std::bit_cast<std::uint32_t>(scaled);
    return std::bit_cast<float>(magnitude | sign);
  }
  // Rounds to nearest, ties to even: for subnormals by adding a constant whose last place is the
  // smallest half, for the others by integer arithmetic.
  static Float16 store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000;
    const std::uint32_t rest = bits & 0x7fffffff;
    constexpr float kMagic = 0.5f;  // 2^-1: its last place is 2^-24.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + kMagic) -
        std::bit_cast<std::uint32_t>(kMagic);
    const std::uint32_t normal = (rest + 0xc8000fff + ((rest >> 13) & 1)) >> 13;
    const std::uint32_t finite = rest < 0x38800000 ? subnormal : (normal & 0xffff);
    const std::uint32_t overflow = rest > 0x7f800000 ? 0x7e00 : 0x7c00;
    return {static_cast<std::uint16_t>(sign | (rest >= 0x477ff000 ? overflow : finite))};
  }
};

template <typename T>
using Number = decltype(Convert<T>::load(T{}));

}  // namespace
}  // namespace colla::collective
