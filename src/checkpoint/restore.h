// Puts the tensors of a checkpoint back into a model or an optimizer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "checkpoint/tensor_view.h"
#include "colla/status.h"

namespace colla::checkpoint {

// Where a tensor belongs; `bytes` is contiguous and as large as type and shape ask for.
struct Target {
  std::string name;
  DataType type = DataType::kFloat32;
  Shape shape;
  std::span<std::byte> bytes;
};

// Fills all `targets` from `saved`, or none: kMismatch, with names, types and shapes, unless both
// have the same tensors. `saved` is sorted by name, as Loaded has it.
Status restore(std::span<const TensorView> saved, std::span<const Target> targets);

}  // namespace colla::checkpoint
