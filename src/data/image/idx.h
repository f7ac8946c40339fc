// The IDX format of MNIST's files: two zero bytes, the element type, the number of dimensions,
// their lengths (32 bits, big-endian), then the elements. Plain or compressed by gzip.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "colla/array.h"
#include "colla/status.h"

namespace colla::data {

// The array in `file`, which must hold unsigned bytes in `dimensions` dimensions and nothing
// behind them; `name` is for errors. No memory is taken on the header's word alone: there is never
// more of it than a few times what the file really holds.
Result<Array> parseIdx(std::span<const std::byte> file, std::string_view name, int dimensions);

}  // namespace colla::data
