#include "collective/kernels.h"

#include "base/check.h"
#include "base/instruction_set.h"

namespace colla::collective {

const Kernels* baselineKernels(DataType type, ReduceOp op);
const Kernels* avx2Kernels(DataType type, ReduceOp op);

void baselineCopy(void* out, const void* in, std::size_t bytes);
void avx2Copy(void* out, const void* in, std::size_t bytes);

namespace {

const Kernels* find(DataType type, ReduceOp op) {
  return hasAvx2() ? avx2Kernels(type, op) : baselineKernels(type, op);
}

}  // namespace

void copyBytes(void* out, const void* in, std::size_t bytes) {
  hasAvx2() ? avx2Copy(out, in, bytes) : baselineCopy(out, in, bytes);
}

bool supported(DataType type, ReduceOp op) { return find(type, op) != nullptr; }

const Kernels& kernelsFor(DataType type, ReduceOp op) {
  const Kernels* kernels = find(type, op);
  COLLA_CHECK(kernels != nullptr);
  return *kernels;
}

}  // namespace colla::collective
