// Between letter_convolution.cc and the builds of its inner loop.
#pragma once

#include <cstdint>

#include "models/kernels/letters.h"

namespace colla::models::kernels {

// The filters that one table row has, side by side in the lanes of a vector.
inline constexpr int kRowBytes = 32;
template <typename T>
inline constexpr int kLanes = kRowBytes / int{sizeof(T)};

// `table` has a row for each place of the window and each letter, [window][kLetters], aligned to
// its size. Looks at windows that start at 0 … positions - 1 (at least one). Fills kLanes maxima
// and their positions.
template <typename T>
using MaxKernel = void (*)(const T* table, std::int64_t window, const std::uint8_t* letters,
                           std::int64_t positions, T* value, std::int32_t* position);

template <typename T>
MaxKernel<T> baselineMaxKernel();
template <typename T>
MaxKernel<T> avx2MaxKernel();

}  // namespace colla::models::kernels
