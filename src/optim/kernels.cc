#include "optim/kernels.h"

#include "base/instruction_set.h"

namespace colla::optim {

template <typename T>
Kernel<T> baselineKernel(const Form& form);
template <typename T>
Kernel<T> avx2Kernel(const Form& form);
template <typename T>
SquareKernel<T> baselineSquares();
template <typename T>
SquareKernel<T> avx2Squares();

template <typename T>
Kernel<T> kernelFor(const Form& form) {
  return hasAvx2() ? avx2Kernel<T>(form) : baselineKernel<T>(form);
}

template <typename T>
SquareKernel<T> squareKernel() {
  return hasAvx2() ? avx2Squares<T>() : baselineSquares<T>();
}

template Kernel<float> kernelFor<float>(const Form&);
template Kernel<double> kernelFor<double>(const Form&);
template SquareKernel<float> squareKernel<float>();
template SquareKernel<double> squareKernel<double>();

}  // namespace colla::optim
