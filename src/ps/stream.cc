#include "ps/stream.h"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace colla::ps {

void streamBytes(std::byte* out, const std::byte* in, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  if (reinterpret_cast<std::uintptr_t>(out) % kLine == 0) {
    for (; bytes >= kLine; bytes -= kLine, in += kLine, out += kLine) {
      const auto* const from = reinterpret_cast<const __m128i*>(in);
      auto* const to = reinterpret_cast<__m128i*>(out);
      for (int i = 0; i < 4; ++i) _mm_stream_si128(to + i, _mm_loadu_si128(from + i));
    }
    _mm_sfence();  // Such stores are ordered by nothing else: whoever is told next may read them.
  }
#endif
  if (bytes > 0) std::memcpy(out, in, bytes);
}

}  // namespace colla::ps
