// Between logistic.cc and the builds of its inner loops.
#pragma once

#include <cstdint>

namespace colla::models::kernels {

// Rows that go through the cache together.
inline constexpr int kLogisticRows = 4;

struct LogisticKernels {
  // The product of each of `count` rows (at most kLogisticRows) with `weight`.
  void (*products)(const float* rows, std::int64_t features, int count, const float* weight,
                   float* products);
  // sum[j] += factors[0] * rows[0][j], then the next row.
  void (*accumulate)(const float* rows, std::int64_t features, int count, const float* factors,
                     float* sum);
};

LogisticKernels baselineLogisticKernels();
LogisticKernels avx2LogisticKernels();

}  // namespace colla::models::kernels
