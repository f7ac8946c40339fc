// The kernels themselves, compiled once per instruction set (kernels_baseline.cc,
// kernels_avx2.cc): everything here is in an unnamed namespace, so that the linker can't mix the
// versions up. Loops are written for the compiler's vectoriser: no branches, no calls.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collective/convert.h"
#include "collective/kernels.h"

// The operands of a loop are the same memory or do not overlap: each element can be done alone.
// Clang finds that out at run time.
#if defined(__clang__)
#define COLLA_VECTORISE
#else
#define COLLA_VECTORISE _Pragma("GCC ivdep")
#endif

namespace colla::collective {
namespace {

// Integers wrap: computed without sign, where that is defined.
template <typename N>
N add(N left, N right) {
  if constexpr (std::is_integral_v<N>) {
    using U = std::make_unsigned_t<N>;
    return static_cast<N>(static_cast<U>(static_cast<U>(left) + static_cast<U>(right)));
  } else {
    return left + right;
  }
}
template <typename N>
N multiply(N left, N right) {
  if constexpr (std::is_integral_v<N>) {
    // Through 64 bits, so that the product of two promoted 16-bit values cannot overflow an int.
    return static_cast<N>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
  } else {
    return left * right;
  }
}

template <ReduceOp op, typename N>
N apply(N left, N right) {
  if constexpr (op == ReduceOp::kSum || op == ReduceOp::kAverage) return add(left, right);
  if constexpr (op == ReduceOp::kProduct) return multiply(left, right);
  // A NaN on either side is the result.
  if constexpr (op == ReduceOp::kMin) return ((left < right) | (left != left)) ? left : right;
  if constexpr (op == ReduceOp::kMax) return ((left > right) | (left != left)) ? left : right;
}

template <ReduceOp op, typename N>
N root(N value, N divisor) {
  if constexpr (std::is_floating_point_v<N> && op == ReduceOp::kSum) return value + N{0};
  if constexpr (op == ReduceOp::kAverage) return (value + N{0}) / divisor;
  return value;
}

template <typename T, ReduceOp op>
struct Loops {
  static void combine(void* out, const void* left, const void* right, std::size_t count) {
    auto* o = static_cast<T*>(out);
    const auto* l = static_cast<const T*>(left);
    const auto* r = static_cast<const T*>(right);
    COLLA_VECTORISE
    for (std::size_t i = 0; i < count; ++i) {
      o[i] = Convert<T>::store(apply<op>(Convert<T>::load(l[i]), Convert<T>::load(r[i])));
    }
  }
  static T rootOf(T left, T right, Number<T> divisor) {
    return Convert<T>::store(
        root<op>(apply<op>(Convert<T>::load(left), Convert<T>::load(right)), divisor));
  }
  static void combineRoot(void* out, const void* left, const void* right, std::size_t count,
                          double divisor) {
    auto* o = static_cast<T*>(out);
    const auto* l = static_cast<const T*>(left);
    const auto* r = static_cast<const T*>(right);
    const auto d = static_cast<Number<T>>(divisor);
    COLLA_VECTORISE
    for (std::size_t i = 0; i < count; ++i) o[i] = rootOf(l[i], r[i], d);
  }
  static void combineRootTwice(void* out, void* also, const void* left, const void* right,
                               std::size_t count, double divisor) {
    auto* o = static_cast<T*>(out);
    auto* a = static_cast<T*>(also);
    const auto* l = static_cast<const T*>(left);
    const auto* r = static_cast<const T*>(right);
    const auto d = static_cast<Number<T>>(divisor);
    COLLA_VECTORISE
    for (std::size_t i = 0; i < count; ++i) {
      const T value = rootOf(l[i], r[i], d);
      o[i] = value;
      a[i] = value;
    }
  }
  static void finish(void* out, const void* in, std::size_t count, double divisor) {
    auto* o = static_cast<T*>(out);
    const auto* v = static_cast<const T*>(in);
    const auto d = static_cast<Number<T>>(divisor);
    COLLA_VECTORISE
    for (std::size_t i = 0; i < count; ++i) {
      o[i] = Convert<T>::store(root<op>(Convert<T>::load(v[i]), d));
    }
  }
  static constexpr Kernels kTable{combine, combineRoot, combineRootTwice, finish};
};

// Booleans are bytes of 0 or 1: "or" is their maximum and "and" their minimum.
template <>
struct Loops<bool, ReduceOp::kSum> : Loops<std::uint8_t, ReduceOp::kMax> {};
template <>
struct Loops<bool, ReduceOp::kMax> : Loops<std::uint8_t, ReduceOp::kMax> {};
template <>
struct Loops<bool, ReduceOp::kProduct> : Loops<std::uint8_t, ReduceOp::kMin> {};
template <>
struct Loops<bool, ReduceOp::kMin> : Loops<std::uint8_t, ReduceOp::kMin> {};

template <typename T>
struct WideningLoops {
  static void widen(float* out, const void* in, std::size_t count) {
    const auto* v = static_cast<const T*>(in);
    COLLA_VECTORISE
    for (std::size_t i = 0; i < count; ++i) out[i] = Convert<T>::load(v[i]);
  }
  static void round(void* out, const float* in, std::size_t count) {
    auto* o = static_cast<T*>(out);
    COLLA_VECTORISE
    for (std::size_t i = 0; i < count; ++i) o[i] = Convert<T>::store(in[i]);
  }
  static constexpr Widening kTable{widen, round};
};

const Widening* lookUpWidening(DataType type) {
  if (type == DataType::kBFloat16) return &WideningLoops<BFloat16>::kTable;
  if (type == DataType::kFloat16) return &WideningLoops<Float16>::kTable;
  return nullptr;
}

using Vector = long long __attribute__((vector_size(32)));

void copyThroughCache(void* out, const void* in, std::size_t bytes) {
  constexpr std::size_t kVectors = 4;
  auto* o = static_cast<char*>(out);
  const auto* i = static_cast<const char*>(in);
  for (; bytes >= kVectors * sizeof(Vector); bytes -= kVectors * sizeof(Vector)) {
    std::array<Vector, kVectors> vectors;
    std::memcpy(vectors.data(), i, sizeof(vectors));
    std::memcpy(o, vectors.data(), sizeof(vectors));
    asm volatile("" ::: "memory");  // Or the compiler finds out that the loop is memcpy.
    i += sizeof(vectors);
    o += sizeof(vectors);
  }
  if (bytes > 0) std::memcpy(o, i, bytes);
}

template <typename T>
const Kernels* ofType(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return &Loops<T, ReduceOp::kSum>::kTable;
    case ReduceOp::kAverage:
      if constexpr (std::is_floating_point_v<Number<T>>) {
        return &Loops<T, ReduceOp::kAverage>::kTable;
      } else {
        return nullptr;
      }
    case ReduceOp::kMin:
      return &Loops<T, ReduceOp::kMin>::kTable;
    case ReduceOp::kMax:
      return &Loops<T, ReduceOp::kMax>::kTable;
    case ReduceOp::kProduct:
      return &Loops<T, ReduceOp::kProduct>::kTable;
  }
  return nullptr;
}

const Kernels* lookUp(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kFloat32:
      return ofType<float>(op);
    case DataType::kFloat64:
      return ofType<double>(op);
    case DataType::kBFloat16:
      return ofType<BFloat16>(op);
    case DataType::kFloat16:
      return ofType<Float16>(op);
    case DataType::kInt8:
      return ofType<std::int8_t>(op);
    case DataType::kInt16:
      return ofType<std::int16_t>(op);
    case DataType::kInt32:
      return ofType<std::int32_t>(op);
    case DataType::kInt64:
      return ofType<std::int64_t>(op);
    case DataType::kUInt8:
      return ofType<std::uint8_t>(op);
    case DataType::kBool:
      return ofType<bool>(op);
  }
  return nullptr;
}

}  // namespace
}  // namespace colla::collective
