// Takes parameters' gradients the moment autograd has them, slice by slice.
//
// A gradient is handed over once and .grad left empty: the next slice must neither add to it nor
// keep its memory. What a user left in .grad (zero_grad() that keeps tensors, or our own sums) is
// not added to either.
//
// Not thread safe; the hooks live as long as this.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

namespace colla::train {

class GradientHooks {
 public:
  // The number that a parameter was given under, and its gradient.
  using Take = std::function<void(int number, const torch::Tensor& gradient)>;

  GradientHooks(std::vector<std::pair<int, torch::Tensor>> parameters, Take take);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  const std::vector<std::pair<int, torch::Tensor>> parameters_;
  const Take take_;
  std::vector<unsigned> hooks_;
};

}  // namespace colla::train
