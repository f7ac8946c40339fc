// Built with -mavx2: called only where the CPU has it.
#include "optim/kernels_body.h"

namespace colla::optim {

template <typename T>
Kernel<T> avx2Kernel(const Form& form) {
  return find<T>(form);
}
template <typename T>
SquareKernel<T> avx2Squares() {
  return sumOfBlock<T>;
}

template Kernel<float> avx2Kernel<float>(const Form&);
template Kernel<double> avx2Kernel<double>(const Form&);
template SquareKernel<float> avx2Squares<float>();
template SquareKernel<double> avx2Squares<double>();

}  // namespace colla::optim
