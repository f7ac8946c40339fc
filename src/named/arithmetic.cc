#include "named/arithmetic.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "collective/convert.h"

namespace colla::named {
namespace {

using collective::Convert;

template <typename T>
std::span<const T> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}
template <typename T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
T scaled(T value, double factor) {
  if constexpr (std::is_integral_v<T>) {
    const double product = static_cast<double>(value) * factor;
    // Of a double beyond the type's range a conversion says nothing.
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
    if (std::isnan(product)) return 0;
    if (product <= kLow) return std::numeric_limits<T>::min();
    if (product >= kHigh) return std::numeric_limits<T>::max();
    return static_cast<T>(product);
  } else {
    const auto number = Convert<T>::load(value);
    return Convert<T>::store(number * static_cast<decltype(number + 0)>(factor));
  }
}

template <typename T>
void scaleAll(std::span<const std::byte> in, std::span<std::byte> out, double factor) {
  const auto from = elements<T>(in);
  const auto to = elements<T>(out);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = scaled(from[i], factor);
}

template <typename T>
void divideAll(std::span<std::byte> data, std::int64_t divisor) {
  for (T& value : elements<T>(data)) value = static_cast<T>(value / divisor);
}

// In several sums side by side, whose number is part of the result.
template <typename T>
double dot(std::span<const T> a, std::span<const T> b) {
  constexpr std::size_t kSums = 8;
  std::array<double, kSums> sums{};
  for (std::size_t i = 0; i < a.size(); ++i) {
    sums[i % kSums] +=
        static_cast<double>(Convert<T>::load(a[i])) * static_cast<double>(Convert<T>::load(b[i]));
  }
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

template <typename T>
void adasumAll(std::span<const std::byte> left, std::span<const std::byte> right,
               std::span<std::byte> out) {
  const auto a = elements<T>(left);
  const auto b = elements<T>(right);
  const auto to = elements<T>(out);
  const double ab = dot(a, b);
  const double aa = dot(a, a);
  const double bb = dot(b, b);
  const double ofA = aa == 0 ? 1 : 1 - ab / (2 * aa);
  const double ofB = bb == 0 ? 1 : 1 - ab / (2 * bb);
  for (std::size_t i = 0; i < to.size(); ++i) {
    using Number = decltype(Convert<T>::load(a[i]));
    const double sum = ofA * static_cast<double>(Convert<T>::load(a[i])) +
                       ofB * static_cast<double>(Convert<T>::load(b[i]));
    to[i] = Convert<T>::store(static_cast<Number>(sum));
  }
}

}  // namespace

bool isFloat(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kBFloat16 ||
         type == DataType::kFloat16;
}

void scale(DataType type, std::span<const std::byte> in, std::span<std::byte> out, double factor) {
  switch (type) {
    case DataType::kFloat32:
      return scaleAll<float>(in, out, factor);
    case DataType::kFloat64:
      return scaleAll<double>(in, out, factor);
    case DataType::kBFloat16:
      return scaleAll<BFloat16>(in, out, factor);
    case DataType::kFloat16:
      return scaleAll<Float16>(in, out, factor);
    case DataType::kInt8:
      return scaleAll<std::int8_t>(in, out, factor);
    case DataType::kInt16:
      return scaleAll<std::int16_t>(in, out, factor);
    case DataType::kInt32:
      return scaleAll<std::int32_t>(in, out, factor);
    case DataType::kInt64:
      return scaleAll<std::int64_t>(in, out, factor);
    case DataType::kUInt8:
      return scaleAll<std::uint8_t>(in, out, factor);
    case DataType::kBool:
      break;
  }
  COLLA_CHECK(false);  // Refused before.
}

void divide(DataType type, std::span<std::byte> data, std::int64_t divisor) {
  switch (type) {
    case DataType::kInt8:
      return divideAll<std::int8_t>(data, divisor);
    case DataType::kInt16:
      return divideAll<std::int16_t>(data, divisor);
    case DataType::kInt32:
      return divideAll<std::int32_t>(data, divisor);
    case DataType::kInt64:
      return divideAll<std::int64_t>(data, divisor);
    case DataType::kUInt8:
      return divideAll<std::uint8_t>(data, divisor);
    default:
      COLLA_CHECK(false);  // Floats are divided by the reduction.
  }
}

void adasum(DataType type, std::span<const std::byte> a, std::span<const std::byte> b,
            std::span<std::byte> out) {
  switch (type) {
    case DataType::kFloat32:
      return adasumAll<float>(a, b, out);
    case DataType::kFloat64:
      return adasumAll<double>(a, b, out);
    case DataType::kBFloat16:
      return adasumAll<BFloat16>(a, b, out);
    case DataType::kFloat16:
      return adasumAll<Float16>(a, b, out);
    default:
      COLLA_CHECK(false);  // Refused before.
  }
}

}  // namespace colla::named
