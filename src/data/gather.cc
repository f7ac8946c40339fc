#include "data/gather.h"

#include <cstring>

namespace colla::data {
namespace {

// A division per pixel would cost several times as much as all else. Instead 1/255 is the sum of a
// part with 16 bits, whose product with a byte is exact, and the rest: the last addition is then
// the only one that rounds noticeably, and it does so as the division would.
constexpr float kHigh = 0x1.0102p-8F;
constexpr auto kLow = static_cast<float>(1.0 / 255.0 - kHigh);
constexpr float unitOf(int byte) {
  const auto value = static_cast<float>(byte);
  return value * kHigh + value * kLow;
}

constexpr bool roundsLikeDivision() {
  for (int byte = 0; byte < 256; ++byte) {
    if (unitOf(byte) != static_cast<float>(byte) / 255.0F) return false;
  }
  return true;
}
static_assert(roundsLikeDivision());

// Rows of a shuffled epoch lie anywhere, and the processor can't guess where the next one is: tell
// it while there is still a row to copy. It finds the rest of a long row by itself.
constexpr std::size_t kRowsAhead = 2;
constexpr std::size_t kPrefetched = 1024;
constexpr std::size_t kCacheLine = 64;
void prefetchRow(const std::byte* row, std::size_t rowBytes) {
  const std::size_t size = rowBytes < kPrefetched ? rowBytes : kPrefetched;
  for (std::size_t offset = 0; offset < size; offset += kCacheLine) {
    __builtin_prefetch(row + offset);
  }
}

template <typename Copy>
void forEachRow(const std::byte* rows, std::size_t rowBytes, std::span<const std::int64_t> indices,
                Copy copy) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i + kRowsAhead < indices.size()) {
      prefetchRow(rows + indices[i + kRowsAhead] * rowBytes, rowBytes);
    }
    copy(rows + indices[i] * rowBytes);
  }
}

}  // namespace

void gatherRows(const std::byte* rows, std::size_t rowBytes, std::span<const std::int64_t> indices,
                std::byte* result) {
  if (rowBytes == sizeof(std::int64_t)) {  // Labels: a call of memcpy for each would cost more.
    for (const std::int64_t index : indices) {
      std::memcpy(result, rows + index * sizeof(std::int64_t), sizeof(std::int64_t));
      result += sizeof(std::int64_t);
    }
    return;
  }
  forEachRow(rows, rowBytes, indices, [&](const std::byte* row) {
    std::memcpy(result, row, rowBytes);
    result += rowBytes;
  });
}

void gatherRowsAsUnit(const std::byte* rows, std::size_t rowBytes,
                      std::span<const std::int64_t> indices, float* result) {
  forEachRow(rows, rowBytes, indices, [&](const std::byte* row) {
    scaleToUnit(row, rowBytes, result);
    result += rowBytes;
  });
}

void scaleToUnit(const std::byte* bytes, std::size_t count, float* result) {
  for (std::size_t i = 0; i < count; ++i) result[i] = unitOf(std::to_integer<int>(bytes[i]));
}

}  // namespace colla::data
