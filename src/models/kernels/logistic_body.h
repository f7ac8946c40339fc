// The inner loops of logistic regression, compiled once per instruction set (logistic_baseline.cc,
// logistic_avx2.cc): everything here is in an unnamed namespace and nothing of the standard library
// is called, so that the linker can't mix the versions up.
#pragma once

#include "models/kernels/logistic_kernel.h"

namespace colla::models::kernels {
namespace {

constexpr int kVectorLanes = 8;
// Sums that are under way at once in a product: an addition takes several cycles.
constexpr int kChains = 4;
constexpr int kStride = kVectorLanes * kChains;
typedef float Vector __attribute__((vector_size(kVectorLanes * sizeof(float))));

// From memory that starts anywhere. By reference: a vector by value would be returned in other ways
// with and without AVX.
inline void load(const float* place, Vector& vector) {
  __builtin_memcpy(&vector, place, sizeof(vector));
}

inline float sumOf(const Vector& v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

template <int kRows>
void productsOf(const float* rows, std::int64_t features, const float* weight, float* products) {
  Vector sums[kRows][kChains] = {};
  std::int64_t j = 0;
  for (; j + kStride <= features; j += kStride) {
    for (int chain = 0; chain < kChains; ++chain) {
      const std::int64_t place = j + chain * kVectorLanes;
      Vector weights;
      load(weight + place, weights);
      for (int row = 0; row < kRows; ++row) {
        Vector values;
        load(rows + row * features + place, values);
        sums[row][chain] += values * weights;
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    float product = sumOf((sums[row][0] + sums[row][1]) + (sums[row][2] + sums[row][3]));
    for (std::int64_t tail = j; tail < features; ++tail) {
      product += rows[row * features + tail] * weight[tail];
    }
    products[row] = product;
  }
}

template <int kRows>
void accumulateRows(const float* rows, std::int64_t features, const float* factors, float* sum) {
  std::int64_t j = 0;
  for (; j + kVectorLanes <= features; j += kVectorLanes) {
    Vector sums;
    load(sum + j, sums);
    for (int row = 0; row < kRows; ++row) {
      Vector values;
      load(rows + row * features + j, values);
      sums += values * factors[row];
    }
    __builtin_memcpy(sum + j, &sums, sizeof(sums));
  }
  for (; j < features; ++j) {
    for (int row = 0; row < kRows; ++row) sum[j] += rows[row * features + j] * factors[row];
  }
}

void products(const float* rows, std::int64_t features, int count, const float* weight,
              float* results) {
  if (count == kLogisticRows) {
    productsOf<kLogisticRows>(rows, features, weight, results);
    return;
  }
  for (int row = 0; row < count; ++row) {
    productsOf<1>(rows + row * features, features, weight, results + row);
  }
}

void accumulate(const float* rows, std::int64_t features, int count, const float* factors,
                float* sum) {
  if (count == kLogisticRows) {
    accumulateRows<kLogisticRows>(rows, features, factors, sum);
    return;
  }
  for (int row = 0; row < count; ++row) {
    accumulateRows<1>(rows + row * features, features, factors + row, sum);
  }
}

}  // namespace
}  // namespace colla::models::kernels
