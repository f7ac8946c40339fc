// Built with -mavx2: called only where the CPU has it.
#include "models/kernels/letter_convolution_body.h"

namespace colla::models::kernels {

template <typename T>
MaxKernel<T> avx2MaxKernel() {
  return maxOfSums<T>;
}
template MaxKernel<float> avx2MaxKernel<float>();
template MaxKernel<double> avx2MaxKernel<double>();

}  // namespace colla::models::kernels
