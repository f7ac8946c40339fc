// Between libtorch's tensors and Colla's typed memory.
#pragma once

#include <torch/torch.h>

#include "colla/buffer.h"
#include "colla/data_type.h"
#include "colla/dataset.h"

namespace colla::train {

// Throws colla::Error for a type that Colla does not move, naming `what`.
DataType dataTypeOf(const torch::Tensor& tensor, const std::string& what);
torch::ScalarType scalarTypeOf(DataType type);

// A tensor on the same memory, which it keeps alive.
torch::Tensor asTensor(const Array& array);
std::vector<torch::Tensor> asTensors(const Batch& batch);

// The memory of a contiguous tensor; others are refused with their name.
Buffer memoryOf(const torch::Tensor& tensor, const std::string& what);

}  // namespace colla::train
