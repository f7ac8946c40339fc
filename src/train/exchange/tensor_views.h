// Tensors of a model as a checkpoint sees them: the same memory.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/tensor_view.h"
#include "train/exchange/parameter.h"

namespace colla::train {

// A tensor's memory as bytes, for what is only moved. Of a contiguous tensor it is the same memory.
torch::Tensor bytesOf(const torch::Tensor& tensor);
// A buffer as it is summed over slices: itself if it is floating point, otherwise its bytes, of
// which slice 0's count alone (Reducer::Kind::kFirst).
torch::Tensor summable(const torch::Tensor& buffer);

void appendViews(std::vector<checkpoint::TensorView>& views, std::span<const Parameter> tensors);

}  // namespace colla::train
