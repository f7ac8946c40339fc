#include "base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace colla {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Reflected.

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}();

std::uint32_t extendTable(std::span<const std::byte> data, std::uint32_t state) {
  for (const std::byte byte : data) {
    state = kTable[(state ^ std::to_integer<std::uint32_t>(byte)) & 0xff] ^ (state >> 8);
  }
  return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t extendSse42(std::span<const std::byte> data,
                                                            std::uint32_t state) {
  std::uint64_t wide = state;
  while (data.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data(), sizeof(word));
    wide = _mm_crc32_u64(wide, word);
    data = data.subspan(sizeof(word));
  }
  return extendTable(data, static_cast<std::uint32_t>(wide));
}
#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~extendSse42(data, ~crc);
#endif
  return ~extendTable(data, ~crc);
}

std::uint32_t maskedCrc32c(std::span<const std::byte> data) {
  return std::rotr(crc32c(data), 15) + 0xa282ead8U;
}

}  // namespace colla
