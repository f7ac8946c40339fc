#include "train/exchange/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace colla::train {
namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(const GradientHooks::Take& take, int number) : take_(take), number_(number) {}
  void operator()(const torch::autograd::Variable& tensor) override {
    torch::Tensor& grad = tensor.mutable_grad();
    take_(number_, grad);
    grad.reset();
  }

 private:
  const GradientHooks::Take& take_;
  const int number_;
};

}  // namespace

GradientHooks::GradientHooks(std::vector<std::pair<int, torch::Tensor>> parameters, Take take)
    : parameters_(std::move(parameters)), take_(std::move(take)) {
  for (const auto& [number, parameter] : parameters_) {
    const torch::Tensor tensor = parameter;
    hooks_.push_back(
        tensor.register_hook([tensor](const torch::Tensor&) { tensor.mutable_grad().reset(); }));
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, std::make_unique<Hook>(take_, number));
  }
}

GradientHooks::~GradientHooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& tensor = parameters_[i].second;
    tensor.remove_hook(hooks_[i]);
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
    tensor.mutable_grad().reset();  // It may be a view of memory that goes.
  }
}

}  // namespace colla::train
