// The inner loop of the convolution, compiled once per instruction set
// (letter_convolution_baseline.cc, letter_convolution_avx2.cc): everything here is in an unnamed
// namespace and nothing of the standard library is called, so that the linker can't mix the
// versions up.
//
// A tile is kTile neighbouring positions, whose sums stay in registers. The letter at place j of
// the tile belongs to its position i as the letter k = j - i of the window, so one look at a letter
// serves all positions of the tile: their rows are a fixed distance apart. The first and the last
// letters belong to some of the positions only.
//
//        j   0  1  2  3  4  5  6  7  8      (kTile 4, window 6)
//   i = 0    k0 k1 k2 k3 k4 k5
//   i = 1       k0 k1 k2 k3 k4 k5
//   i = 2          k0 k1 k2 k3 k4 k5
//   i = 3             k0 k1 k2 k3 k4 k5
//
// A sum is made from its first letter to its last, whatever its place in a tile.
#pragma once

#include "models/kernels/letter_convolution_kernel.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace colla::models::kernels {
namespace {

constexpr int kTile = 8;
static_assert(kTile - 1 <= Letters::kMargin);
constexpr std::int64_t kPlaceBytes = std::int64_t{kLetters} * kRowBytes;

template <typename T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Place = std::int32_t;
  typedef float Type __attribute__((vector_size(kRowBytes)));
  typedef Place Places __attribute__((vector_size(kRowBytes)));
};
template <>
struct VectorOf<double> {
  using Place = std::int64_t;
  typedef double Type __attribute__((vector_size(kRowBytes)));
  typedef Place Places __attribute__((vector_size(kRowBytes)));
};
template <typename T>
using Vector = typename VectorOf<T>::Type;
template <typename T>
using Places = typename VectorOf<T>::Places;

#define COLLA_INLINE inline __attribute__((always_inline))

template <typename T>
COLLA_INLINE const Vector<T>& rowAt(const char* address) {
  return *reinterpret_cast<const Vector<T>*>(address);
}

// True in some lane.
template <typename P>
COLLA_INLINE bool anyOf(const P& mask) {
#if defined(__AVX2__)
  return _mm256_movemask_epi8(reinterpret_cast<const __m256i&>(mask)) != 0;
#else
  bool any = false;
  for (int lane = 0; lane < int{sizeof(P) / sizeof(mask[0])}; ++lane) any |= mask[lane] != 0;
  return any;
#endif
}

// a > b ? a : b, by one instruction where the compiler would take two.
template <typename V>
COLLA_INLINE void takeLarger(V& a, const V& b) {
#if defined(__AVX2__)
  if constexpr (sizeof(a[0]) == sizeof(float)) {
    a = _mm256_max_ps(a, b);
  } else {
    a = _mm256_max_pd(a, b);
  }
#else
  a = a > b ? a : b;
#endif
}

// Adds a letter to the positions [begin, end) of the tile. `row` is its row for position 0.
template <int begin, int end, typename T>
COLLA_INLINE void addLetter(Vector<T>* sums, const char* row) {
  if constexpr (begin < end) {
    sums[begin] += rowAt<T>(row - begin * kPlaceBytes);
    addLetter<begin + 1, end, T>(sums, row);
  }
}

// Letters j … kTile - 1, which have positions 0 … j: the last of them begins its sum here.
template <int j, typename T>
COLLA_INLINE void addFirst(Vector<T>* sums, const char* table, const std::uint8_t* letters) {
  if constexpr (j < kTile) {
    const char* const row = table + j * kPlaceBytes + letters[j] * kRowBytes;
    addLetter<0, j, T>(sums, row);
    sums[j] = rowAt<T>(row - j * kPlaceBytes);
    addFirst<j + 1, T>(sums, table, letters);
  }
}

// The letters behind position 0's window, of which the first belongs to positions `begin` and up.
template <int begin, typename T>
COLLA_INLINE void addLast(Vector<T>* sums, const char* end, const std::uint8_t* letters) {
  if constexpr (begin < kTile) {
    addLetter<begin, kTile, T>(sums, end + (begin - 1) * kPlaceBytes + *letters * kRowBytes);
    addLast<begin + 1, T>(sums, end, letters + 1);
  }
}

template <typename T>
COLLA_INLINE void sumTile(Vector<T>* sums, const char* table, std::int64_t window,
                          const std::uint8_t* letters) {
  addFirst<0, T>(sums, table, letters);
  const char* place = table + kTile * kPlaceBytes;
  for (std::int64_t j = kTile; j < window; ++j, place += kPlaceBytes) {
    addLetter<0, kTile, T>(sums, place + letters[j] * kRowBytes);
  }
  addLast<1, T>(sums, table + window * kPlaceBytes, letters + window);
}

// A window that is shorter than a tile has letters that belong to neither the first position nor
// the last.
template <typename T>
COLLA_INLINE void sumShortTile(Vector<T>* sums, const char* table, std::int64_t window,
                               const std::uint8_t* letters) {
  for (int i = 0; i < kTile; ++i) {
    sums[i] = rowAt<T>(table + letters[i] * kRowBytes);
    for (std::int64_t k = 1; k < window; ++k) {
      sums[i] += rowAt<T>(table + k * kPlaceBytes + letters[i + k] * kRowBytes);
    }
  }
}

template <typename T>
void maxOfSums(const T* table, std::int64_t window, const std::uint8_t* letters,
               std::int64_t positions, T* value, std::int32_t* position) {
  const char* const rows = reinterpret_cast<const char*>(table);
  Vector<T> best = Vector<T>{} - static_cast<T>(__builtin_inf());
  Places<T> places = {};
  for (std::int64_t start = 0; start < positions; start += kTile) {
    Vector<T> sums[kTile];
    if (window >= kTile) {
      sumTile<T>(sums, rows, window, letters + start);
    } else {
      sumShortTile<T>(sums, rows, window, letters + start);
    }
    // Most tiles have nothing new. Positions behind the last one may raise a false alarm.
    Vector<T> largest = sums[0];
    for (int i = 1; i < kTile; ++i) takeLarger(largest, sums[i]);
    if (!anyOf(largest > best)) continue;
    const std::int64_t left = positions - start;
    for (int i = 0; i < kTile && i < left; ++i) {
      const auto better = sums[i] > best;
      best = better ? sums[i] : best;
      const auto place = static_cast<typename VectorOf<T>::Place>(start + i);
      places = better ? Places<T>{} + place : places;
    }
  }
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    value[lane] = best[lane];
    position[lane] = static_cast<std::int32_t>(places[lane]);
  }
}

}  // namespace
}  // namespace colla::models::kernels
