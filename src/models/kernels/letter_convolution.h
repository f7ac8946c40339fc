// The convolution of letters, and its maximum over all positions.
//
// A filter has a weight for each class and each place of its window. A window of letters is worth
// the sum of what its letters are worth at their places, so a convolution is a sum of rows of a
// table; only the largest of these sums and where it stands is kept. Windows lie within the
// sequence (TensorFlow's VALID), padding included, which is worth nothing.
//
// Weights and their gradients are [filters][kClasses][window], as PyTorch's Conv1d has them. What a
// filter gets depends on its own weights and the letters alone: the same bits whatever range of
// filters is computed, whatever other samples there are, and for every build of the kernels.
//
// Thread safe. For T = float and double.
#pragma once

#include <cstdint>

#include "models/kernels/letters.h"

namespace colla::models::kernels {

struct FilterRange {
  std::int64_t begin;
  std::int64_t end;
};
// Ranges that begin at multiples of this waste nothing.
inline constexpr std::int64_t kFilterBlock = 8;

// For the filters in `range` out of `filters`: value and position of each maximum,
// [samples][filters]. Of equal ones the first counts. A filter with a NaN among its weights gets
// NaN. A window is at most as long as the sequences.
template <typename T>
void maxConvolution(const Letters& letters, const T* weight, std::int64_t filters,
                    std::int64_t window, FilterRange range, T* value, std::int32_t* position);

// What weights get back: from the gradient of each maximum, [samples][filters], to that of the
// weights, which is overwritten within `range`.
template <typename T>
void maxConvolutionBackward(const Letters& letters, const T* gradient, const std::int32_t* position,
                            std::int64_t filters, std::int64_t window, FilterRange range,
                            T* weightGradient);

}  // namespace colla::models::kernels
