// Built with -mavx2: called only where the CPU has it.
#include "collective/kernels_body.h"

namespace colla::collective {

// Null when the pair is not supported.
const Kernels* avx2Kernels(DataType type, ReduceOp op) { return lookUp(type, op); }

const Widening* avx2Widening(DataType type) { return lookUpWidening(type); }

void avx2Copy(void* out, const void* in, std::size_t bytes) { copyThroughCache(out, in, bytes); }

}  // namespace colla::collective
