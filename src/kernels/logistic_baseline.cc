#include "kernels/logistic_body.h"

namespace colla::kernels {

LogisticKernels baselineLogisticKernels() { return {products, accumulate}; }

}  // namespace colla::kernels
