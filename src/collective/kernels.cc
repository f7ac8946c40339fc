#include "collective/kernels.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/instruction_set.h"

namespace colla::collective {

const Kernels* baselineKernels(DataType type, ReduceOp op);
const Kernels* avx2Kernels(DataType type, ReduceOp op);

const Widening* baselineWidening(DataType type);
const Widening* avx2Widening(DataType type);

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

#if defined(__SSE2__)
void stageBytes(void* out, const void* in, std::size_t bytes) {
  using Vector = __m128i;
  constexpr std::size_t kVectors = 4;
  auto* o = static_cast<std::byte*>(out);
  const auto* i = static_cast<const std::byte*>(in);
  const auto copyPlain = [&](std::size_t count) {
    std::memcpy(o, i, count);
    o += count;
    i += count;
    bytes -= count;
  };
  copyPlain(std::min(bytes, -reinterpret_cast<std::uintptr_t>(out) % sizeof(Vector[kVectors])));
  for (; bytes >= sizeof(Vector[kVectors]); bytes -= sizeof(Vector[kVectors])) {
    for (std::size_t k = 0; k < kVectors; ++k, o += sizeof(Vector), i += sizeof(Vector)) {
      _mm_stream_si128(reinterpret_cast<Vector*>(o),
                       _mm_loadu_si128(reinterpret_cast<const Vector*>(i)));
    }
  }
  copyPlain(bytes);
}

void finishStaging() { _mm_sfence(); }
#else
void stageBytes(void* out, const void* in, std::size_t bytes) { copyBytes(out, in, bytes); }

void finishStaging() {}
#endif

bool supported(DataType type, ReduceOp op) { return find(type, op) != nullptr; }

const Kernels& kernelsFor(DataType type, ReduceOp op) {
  const Kernels* kernels = find(type, op);
  COLLA_CHECK(kernels != nullptr);
  return *kernels;
}

const Widening* wideningFor(DataType type) {
  return hasAvx2() ? avx2Widening(type) : baselineWidening(type);
}

}  // namespace colla::collective
