// Looks for numbers that no gradient should have.
#pragma once

#include <cstddef>
#include <optional>

#include "colla/data_type.h"

namespace colla::ps {

// The first NaN or infinity of `count` elements of float32 or float64.
std::optional<std::size_t> firstNotFinite(const void* values, std::size_t count, DataType type);

}  // namespace colla::ps
