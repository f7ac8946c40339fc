#include "collective/kernels.h"

#include "base/check.h"

namespace colla::collective {

const Kernels* baselineKernels(DataType type, ReduceOp op);
const Kernels* avx2Kernels(DataType type, ReduceOp op);

namespace {

const Kernels* find(DataType type, ReduceOp op) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (avx2) return avx2Kernels(type, op);
#endif
  return baselineKernels(type, op);
}

}  // namespace

bool supported(DataType type, ReduceOp op) { return find(type, op) != nullptr; }

const Kernels& kernelsFor(DataType type, ReduceOp op) {
  const Kernels* kernels = find(type, op);
  COLLA_CHECK(kernels != nullptr);
  return *kernels;
}

}  // namespace colla::collective
