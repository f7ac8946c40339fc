// Copies rows out of arrays: the inner loops of data sets that lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace colla::data {

// Rows of `rowBytes` bytes, one for each of `indices`, one behind the other.
void gatherRows(const std::byte* rows, std::size_t rowBytes, std::span<const std::int64_t> indices,
                std::byte* result);

// The same from rows of `rowBytes` bytes, each given out as byte / 255, correctly rounded.
void gatherRowsAsUnit(const std::byte* rows, std::size_t rowBytes,
                      std::span<const std::int64_t> indices, float* result);
// The same for `count` bytes that lie one behind the other.
void scaleToUnit(const std::byte* bytes, std::size_t count, float* result);

}  // namespace colla::data
