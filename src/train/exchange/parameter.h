// A tensor of the model, with the name that the model gives it.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <span>
#include <string>

#include "colla/group.h"
#include "colla/optimizer.h"

namespace colla::train {

struct Parameter {
  std::string name;
  torch::Tensor tensor;
  std::optional<OptimizerOptions> optimizer = {};  // Instead of the task's: of the group it is in.
};

// Rank 0's values replace those of every rank. Throws colla::Error.
void broadcastTensors(Group& group, std::span<const Parameter> tensors);

}  // namespace colla::train
