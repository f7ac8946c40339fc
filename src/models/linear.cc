#include "models/linear.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string_view>
#include <vector>

namespace colla::models {
namespace {

// What PyTorch's compiler calls for a dense layer. It takes transposed views as they are.
using Product = torch::Tensor(const torch::Tensor& input, const torch::Tensor& weight,
                              const std::optional<torch::Tensor>& bias, std::string_view after,
                              c10::List<std::optional<at::Scalar>> scalars,
                              std::optional<std::string_view> algorithm);

const std::optional<c10::TypedOperatorHandle<Product>>& oneDnn() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<Product>> {
    const auto schema = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!schema || !at::hasMKLDNN()) return std::nullopt;
    return schema->typed<Product>();
  }();
  return found;
}

// input times the transpose of `weight`, plus `bias`.
torch::Tensor product(const torch::Tensor& input, const torch::Tensor& weight,
                      const std::optional<torch::Tensor>& bias = {}) {
  const c10::List<std::optional<at::Scalar>> noScalars;
  return oneDnn()->call(input, weight, bias, "none", noScalars, "");
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static torch::Tensor forward(Context* context, const torch::Tensor& input,
                               const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["biased"] = bias.has_value();
    return product(input, weight, bias);
  }

  static Variables backward(Context* context, const Variables& gradients) {
    const Variables saved = context->get_saved_variables();
    const torch::Tensor& gradient = gradients[0];
    // An argument that was left out has no number.
    const bool biased = context->saved_data["biased"].toBool() && context->needs_input_grad(2);
    return {context->needs_input_grad(0) ? product(gradient, saved[1].t()) : torch::Tensor(),
            context->needs_input_grad(1) ? product(gradient.t(), saved[0].t()) : torch::Tensor(),
            biased ? gradient.sum(0) : torch::Tensor()};
  }
};

bool takes(const torch::Tensor& tensor, std::int64_t dimensions) {
  return tensor.dim() == dimensions && tensor.scalar_type() == torch::kFloat32 &&
         tensor.device().is_cpu();
}

bool isIntel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

}  // namespace

torch::Tensor linear(const torch::Tensor& input, const torch::Tensor& weight,
                     const torch::Tensor& bias) {
  return isIntel() ? torch::linear(input, weight, bias) : linearByOneDnn(input, weight, bias);
}

torch::Tensor linearByOneDnn(const torch::Tensor& input, const torch::Tensor& weight,
                             const torch::Tensor& bias) {
  if (input.dim() > 2) {
    std::vector<std::int64_t> sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    return linearByOneDnn(input.flatten(0, -2), weight, bias).view(sizes);
  }
  const bool can = oneDnn() && takes(input, 2) && takes(weight, 2) &&
                   (!bias.defined() || takes(bias, 1)) &&
                   !at::autocast::is_autocast_enabled(at::kCPU);
  if (!can) return torch::linear(input, weight, bias);
  return LinearFunction::apply(input, weight, bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace colla::models
