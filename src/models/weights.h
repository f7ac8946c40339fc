// First weights from a safetensors file: one that `colla export` wrote, a checkpoint's
// model.safetensors, or one from Python with the same names.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/tensor_file.h"
#include "colla/status.h"
#include "models/flags.h"

namespace colla::models {

using Weights = std::shared_ptr<const checkpoint::TensorFile>;  // Null: none.

// Of a flag that is "none" or a path. An error names both.
Result<Weights> openWeights(const Values& values, const std::string& flag);

// Fills every parameter and buffer of `module` from `weights`, and does nothing without any.
// Tensors whose names begin with `except` are neither wanted nor in the way; empty: there are none.
// Throws colla::Error with the names, types and shapes that do not fit.
void loadWeights(torch::nn::Module& module, const Weights& weights, std::string_view except = {});

// Fills every parameter and buffer of `module` from `all`, which is sorted by name. Throws
// colla::Error, with `where`.
void loadTensors(torch::nn::Module& module, std::span<const checkpoint::TensorView> all,
                 const std::string& where, std::string_view except = {});

// As Keras begins: kernels of convolutions and dense layers glorot_uniform, their biases 0.
void initialiseAsKeras(torch::nn::Module& module);

}  // namespace colla::models
