// Tensors that all workers of a job have in common: one memory, which they share.
//
// Not thread safe; every worker makes the same calls in the same order. Errors are thrown as
// colla::Error.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <memory>

#include "colla/job.h"

namespace colla::train {

class CommonTensors {
 public:
  // What a tensor like this one takes.
  static std::size_t roomFor(const torch::Tensor& tensor);

  CommonTensors(Job& job, std::size_t room);

  // The next of them, of this type and shape; zeros. It keeps the memory.
  torch::Tensor make(const torch::Tensor& like);

 private:
  const std::shared_ptr<const Bucket> memory_;
  std::size_t used_ = 0;
};

}  // namespace colla::train
