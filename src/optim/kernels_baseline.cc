#include "optim/kernels_body.h"

namespace colla::optim {

template <typename T>
Kernel<T> baselineKernel(const Form& form) {
  return find<T>(form);
}
template <typename T>
SquareKernel<T> baselineSquares() {
  return sumOfBlock<T>;
}

template Kernel<float> baselineKernel<float>(const Form&);
template Kernel<double> baselineKernel<double>(const Form&);
template SquareKernel<float> baselineSquares<float>();
template SquareKernel<double> baselineSquares<double>();

}  // namespace colla::optim
