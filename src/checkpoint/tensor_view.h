// A named tensor that lies in somebody else's memory: what a checkpoint is made of, without torch.
//
// `bytes` is borrowed: whoever hands out a view keeps the memory while the view is used.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "colla/data_type.h"

namespace colla::checkpoint {

using Shape = std::vector<std::int64_t>;

struct TensorView {
  std::string name;
  DataType type = DataType::kFloat32;
  Shape shape;                       // Empty for a scalar.
  std::span<const std::byte> bytes;  // Contiguous, in row-major order.

  std::size_t elements() const { return bytes.size() / sizeOf(type); }
};

// "[3, 4]"; "[]" for a scalar.
inline std::string toString(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace colla::checkpoint
