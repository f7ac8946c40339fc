#include "train/exchange/tensor_views.h"

#include "train/tensors.h"

namespace colla::train {

torch::Tensor bytesOf(const torch::Tensor& tensor) {
  const torch::Tensor whole = tensor.detach().contiguous();
  return torch::from_blob(
      whole.data_ptr(), {static_cast<std::int64_t>(whole.nbytes())}, [whole](void*) {},
      torch::kByte);
}

torch::Tensor summable(const torch::Tensor& buffer) {
  return buffer.is_floating_point() ? buffer : bytesOf(buffer);
}

void appendViews(std::vector<checkpoint::TensorView>& views, std::span<const Parameter> tensors) {
  for (const Parameter& tensor : tensors) {
    const Buffer memory = memoryOf(tensor.tensor, tensor.name);
    views.push_back({tensor.name, memory.type(), tensor.tensor.sizes().vec(), memory.bytes()});
  }
}

}  // namespace colla::train
