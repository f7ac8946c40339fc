// Dense layers, where a step spends its time in their products.
#pragma once

#include <torch/torch.h>

namespace colla::models {

// torch::linear() by the quicker of the two libraries that libtorch has for products: MKL on
// Intel's processors, and oneDNN on others, of which MKL does not use all (on AMD's with AVX-512
// oneDNN is twice as fast). `bias` may be undefined.
torch::Tensor linear(const torch::Tensor& input, const torch::Tensor& weight,
                     const torch::Tensor& bias);

// By oneDNN on every processor, where libtorch has it: float32, without autocast.
torch::Tensor linearByOneDnn(const torch::Tensor& input, const torch::Tensor& weight,
                             const torch::Tensor& bias);

}  // namespace colla::models
