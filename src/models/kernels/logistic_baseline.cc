#include "models/kernels/logistic_body.h"

namespace colla::models::kernels {

LogisticKernels baselineLogisticKernels() { return {products, accumulate}; }

}  // namespace colla::models::kernels
