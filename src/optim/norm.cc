#include "optim/norm.h"

#include <algorithm>

#include "optim/kernels.h"

namespace colla::optim {

template <typename T>
double sumOfSquares(std::span<const T> values) {
  const auto kernel = squareKernel<T>();
  double sum = 0;
  while (!values.empty()) {
    const auto block = values.first(std::min(values.size(), kNormBlock));
    sum += kernel(block.data(), block.size());
    values = values.subspan(block.size());
  }
  return sum;
}

template double sumOfSquares(std::span<const float> values);
template double sumOfSquares(std::span<const double> values);

double clipFactor(double norm, double maxNorm) {
  const double factor = maxNorm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}

}  // namespace colla::optim
