#include "models/kernels/letter_convolution_body.h"

namespace colla::models::kernels {

template <typename T>
MaxKernel<T> baselineMaxKernel() {
  return maxOfSums<T>;
}
template MaxKernel<float> baselineMaxKernel<float>();
template MaxKernel<double> baselineMaxKernel<double>();

}  // namespace colla::models::kernels
