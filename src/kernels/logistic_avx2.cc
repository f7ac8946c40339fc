// Built with -mavx2: called only where the CPU has it.
#include "kernels/logistic_body.h"

namespace colla::kernels {

LogisticKernels avx2LogisticKernels() { return {products, accumulate}; }

}  // namespace colla::kernels
