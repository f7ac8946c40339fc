// The state of any torch::optim class as named tensors, and back.
//
// libtorch writes it under the addresses of the parameters, so no two processes write the same;
// here every number stands under its parameter's name.
#pragma once

#include <torch/torch.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tensor_view.h"

namespace colla::train {

// "NAME/exp_avg" and the like; single numbers are tensors without dimensions.
using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// The same memory as a checkpoint sees it, and copies of what a checkpoint has.
std::vector<checkpoint::TensorView> viewsOf(const NamedTensors& tensors);
NamedTensors tensorsOf(std::span<const checkpoint::TensorView> views);

// `names` are those of the parameters that the optimizer was made with, in that order. Throws
// colla::Error for state that is neither tensor nor number.
NamedTensors readState(torch::optim::Optimizer& optimizer, std::span<const std::string> names);

// The same back into an optimizer that was made in the same way. Throws c10::Error if it does not
// fit.
void writeState(torch::optim::Optimizer& optimizer, std::span<const std::string> names,
                const NamedTensors& state);

}  // namespace colla::train
