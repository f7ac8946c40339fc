// The element types that Colla moves and reduces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace colla {

enum class DataType : std::uint8_t {
  kFloat32,
  kFloat64,
  kBFloat16,
  kFloat16,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kBool,
};
inline constexpr int kDataTypes = 10;

// Sixteen-bit floats by their bits. Arithmetic on them is done in float32 and rounded to nearest,
// ties to even, at each node of the sum tree.
struct BFloat16 {
  std::uint16_t bits = 0;
};
struct Float16 {
  std::uint16_t bits = 0;
};

std::size_t sizeOf(DataType type);
// "float32", "bfloat16", …
std::string_view toString(DataType type);

// The C++ types that stand for one of them.
template <typename T, typename... Types>
inline constexpr bool kIsOneOf = (std::is_same_v<std::remove_cv_t<T>, Types> || ...);
template <typename T>
concept Element = kIsOneOf<T, float, double, BFloat16, Float16, std::int8_t, std::int16_t,
                           std::int32_t, std::int64_t, std::uint8_t, bool>;

template <Element T>
constexpr DataType dataTypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return DataType::kFloat32;
  if constexpr (std::is_same_v<U, double>) return DataType::kFloat64;
  if constexpr (std::is_same_v<U, BFloat16>) return DataType::kBFloat16;
  if constexpr (std::is_same_v<U, Float16>) return DataType::kFloat16;
  if constexpr (std::is_same_v<U, std::int8_t>) return DataType::kInt8;
  if constexpr (std::is_same_v<U, std::int16_t>) return DataType::kInt16;
  if constexpr (std::is_same_v<U, std::int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<U, std::int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<U, std::uint8_t>) return DataType::kUInt8;
  if constexpr (std::is_same_v<U, bool>) return DataType::kBool;
}

}  // namespace colla
