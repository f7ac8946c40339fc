#include "train/exchange/common_tensors.h"

#include "base/check.h"
#include "colla/error.h"

namespace colla::train {

// A whole number of cache lines: no line has two tensors.
std::size_t CommonTensors::roomFor(const torch::Tensor& tensor) {
  constexpr std::size_t kLine = 64;
  return (tensor.nbytes() + kLine - 1) / kLine * kLine;
}

CommonTensors::CommonTensors(Job& job, std::size_t room)
    : memory_(std::make_shared<const Bucket>(valueOrThrow(job.allocateCommon(room)))) {}

torch::Tensor CommonTensors::make(const torch::Tensor& like) {
  std::byte* const start = memory_->bytes().data() + used_;
  used_ += roomFor(like);
  COLLA_CHECK(used_ <= memory_->bytes().size());
  return torch::from_blob(
      start, like.sizes(), [memory = memory_](void*) {}, like.scalar_type());
}

}  // namespace colla::train
