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
#include "colla/own_optimizer.h"

namespace colla::train {

// The state has names like "NAME/exp_avg"; single numbers are tensors without dimensions.
using colla::NamedTensors;

// The same tensors, detached, each in one piece of memory.
NamedTensors contiguous(NamedTensors tensors);
// The same memory as a checkpoint sees it, and copies of what a checkpoint has.
std::vector<checkpoint::TensorView> viewsOf(const NamedTensors& tensors);
NamedTensors tensorsOf(std::span<const checkpoint::TensorView> views);

// `parameters` has at least those that the optimizer was made with. Throws colla::Error for state
// that is neither tensor nor number.
NamedTensors readState(torch::optim::Optimizer& optimizer, const NamedTensors& parameters);

// The same back into an optimizer that was made in the same way. Throws c10::Error if it does not
// fit.
void writeState(torch::optim::Optimizer& optimizer, const NamedTensors& parameters,
                const NamedTensors& state);

}  // namespace colla::train
