// Copies rows out of arrays: the inner loops of data sets that lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace colla::data {

// Rows of `rowBytes` bytes, one for each of `indices`, one behind the other.
void gatherRows(const std::byte* rows, std::size_t rowBytes, std::span<const std::int64_t> indices,
                std::byte* result);

// `result` = bytes / 255, correctly rounded.
void scaleToUnit(const std::uint8_t* bytes, std::size_t count, float* result);

}  // namespace colla::data
