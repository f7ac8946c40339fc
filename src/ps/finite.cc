#include "ps/finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace colla::ps {
namespace {

// All bits of the exponent are set. Blocks are looked at without a branch per element, which the
// vectoriser likes.
template <typename Bits, Bits kExponent>
std::optional<std::size_t> search(const void* values, std::size_t count) {
  constexpr std::size_t kBlock = 1024;
  const auto* const bits = static_cast<const Bits*>(values);
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t end = std::min(count, first + kBlock);
    Bits bad = 0;
    for (std::size_t i = first; i < end; ++i) {
      bad |= static_cast<Bits>((bits[i] & kExponent) == kExponent);
    }
    if (bad == 0) continue;
    for (std::size_t i = first; i < end; ++i) {
      if ((bits[i] & kExponent) == kExponent) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> firstNotFinite(const void* values, std::size_t count, DataType type) {
  if (type == DataType::kFloat64) {
    return search<std::uint64_t, 0x7ff0000000000000>(values, count);
  }
  return search<std::uint32_t, 0x7f800000>(values, count);
}

}  // namespace colla::ps
