// Dense layers of small models, whose time is that of their products.
#pragma once

#include <torch/torch.h>

namespace colla::models {

// torch::linear() by the quicker of the two libraries that libtorch has for products: MKL on
// Intel's processors, and oneDNN on others, of which MKL does not use all (on AMD's with AVX-512
// oneDNN is twice as fast).
torch::Tensor linear(const torch::Tensor& input, const torch::Tensor& weight,
                     const torch::Tensor& bias);

// By oneDNN on every processor, where libtorch has it: two-dimensional float32, without autocast.
torch::Tensor linearByOneDnn(const torch::Tensor& input, const torch::Tensor& weight,
                             const torch::Tensor& bias);

}  // namespace colla::models
