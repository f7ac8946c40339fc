// A tensor of the model, with the name that the model gives it.
#pragma once

#include <torch/torch.h>

#include <span>
#include <string>

#include "colla/group.h"

namespace colla::train {

struct Parameter {
  std::string name;
  torch::Tensor tensor;
};

// Rank 0's values replace those of every rank. Throws colla::Error.
void broadcastTensors(Group& group, std::span<const Parameter> tensors);

}  // namespace colla::train
