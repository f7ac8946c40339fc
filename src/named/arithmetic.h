// What an exchange computes element by element, beside the reductions themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "colla/data_type.h"

namespace colla::named {

bool isFloat(DataType type);

// out[i] = in[i] * factor: 16-bit floats in float32, integers in float64, dropping the fraction
// and staying within the type. `out` may be `in`. Not for kBool.
void scale(DataType type, std::span<const std::byte> in, std::span<std::byte> out, double factor);

// data[i] /= divisor, dropping the rest. For integers.
void divide(DataType type, std::span<std::byte> data, std::int64_t divisor);

// Adasum of two: out = a (1 - <a,b> / 2<a,a>) + b (1 - <a,b> / 2<b,b>), where a factor whose vector
// is zero is 1. The products are summed in float64, in a fixed order. `out` may be either. For
// floats.
void adasum(DataType type, std::span<const std::byte> a, std::span<const std::byte> b,
            std::span<std::byte> out);

}  // namespace colla::named
