// The values behind the bytes of a tensor, for any element type and alignment.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "colla/data_type.h"

namespace colla::checkpoint {

// Calls `f(T{})` with the element type.
template <typename F>
auto visitType(DataType type, F&& f) {
  switch (type) {
    case DataType::kFloat64:
      return f(double{});
    case DataType::kBFloat16:
      return f(BFloat16{});
    case DataType::kFloat16:
      return f(Float16{});
    case DataType::kInt8:
      return f(std::int8_t{});
    case DataType::kInt16:
      return f(std::int16_t{});
    case DataType::kInt32:
      return f(std::int32_t{});
    case DataType::kInt64:
      return f(std::int64_t{});
    case DataType::kUInt8:
    case DataType::kBool:  // By its byte: one that is neither 0 nor 1 is worth seeing.
      return f(std::uint8_t{});
    case DataType::kFloat32:
      break;
  }
  return f(float{});
}

template <typename T>
T loadElement(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
inline constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

inline double valueOf(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
inline double valueOf(Float16 value) {
  const int exponent = (value.bits >> 10) & 0x1f;
  const int fraction = value.bits & 0x3ff;
  double magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, -24);
  } else {
    magnitude = std::ldexp(fraction + 0x400, exponent - 25);
  }
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}
template <typename T>
requires std::is_arithmetic_v<T>
double valueOf(T value) { return static_cast<double>(value); }

// How many values of type T lie between two that are not NaN, one of them counted; -0.0 and 0.0
// are the same place.
template <typename T>
requires kIsFloat<T> std::uint64_t ulpsBetween(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  constexpr auto kSign = static_cast<std::uint64_t>(Bits{1} << (sizeof(T) * 8 - 1));
  const std::uint64_t bitsA = std::bit_cast<Bits>(a);
  const std::uint64_t bitsB = std::bit_cast<Bits>(b);
  const std::uint64_t farA = bitsA & (kSign - 1);
  const std::uint64_t farB = bitsB & (kSign - 1);
  if ((bitsA & kSign) != (bitsB & kSign)) return farA + farB;
  return farA > farB ? farA - farB : farB - farA;
}

}  // namespace colla::checkpoint
