// Built with -mavx2: called only where the CPU has it.
#include "models/kernels/logistic_body.h"

namespace colla::models::kernels {

LogisticKernels avx2LogisticKernels() { return {products, accumulate}; }

}  // namespace colla::models::kernels
