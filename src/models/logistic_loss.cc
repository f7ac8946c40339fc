#include "models/logistic_loss.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "models/kernels/logistic.h"

namespace colla::models {
namespace {

// Below this many numbers a second thread costs more than it brings.
constexpr std::int64_t kLeastPerThread = 1 << 16;

class LossFunction : public torch::autograd::Function<LossFunction> {
 public:
  using Context = torch::autograd::AutogradContext;

  static torch::autograd::variable_list forward(Context* context, const torch::Tensor& rows,
                                                const torch::Tensor& weight,
                                                const torch::Tensor& bias,
                                                const torch::Tensor& target) {
    const std::int64_t samples = rows.size(0);
    const std::int64_t features = rows.size(1);
    const std::int64_t parts =
        std::clamp<std::int64_t>(rows.numel() / kLeastPerThread, 1, at::get_num_threads());
    torch::Tensor logits = torch::empty({samples}, rows.options());
    torch::Tensor weightGradients = torch::empty({parts, features}, rows.options());
    torch::Tensor biasGradients = torch::empty({parts, 1}, rows.options());
    std::vector<double> losses(static_cast<std::size_t>(parts));
    at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t first = samples * part / parts;
        const auto count = static_cast<std::size_t>(samples * (part + 1) / parts - first);
        kernels::LogisticGradient gradient{{weightGradients.data_ptr<float>() + part * features,
                                            static_cast<std::size_t>(features)}};
        losses[part] =
            kernels::logisticLoss({rows.const_data_ptr<float>() + first * features,
                                   features,
                                   {target.const_data_ptr<std::int64_t>() + first, count}},
                                  weight.const_data_ptr<float>(), *bias.const_data_ptr<float>(),
                                  1.0f / static_cast<float>(samples),
                                  {logits.data_ptr<float>() + first, count}, gradient);
        biasGradients.data_ptr<float>()[part] = gradient.bias;
      }
    });
    double loss = 0;
    for (const double part : losses) loss += part;
    context->saved_data["weight"] = parts == 1 ? weightGradients : weightGradients.sum(0, true);
    context->saved_data["bias"] = biasGradients.sum(0);
    context->mark_non_differentiable({logits});
    return {torch::scalar_tensor(loss / static_cast<double>(samples), rows.options()), logits};
  }

  static torch::autograd::variable_list backward(Context* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::Tensor& scale = gradients[0];
    return {torch::Tensor(), context->saved_data["weight"].toTensor() * scale,
            context->saved_data["bias"].toTensor() * scale, torch::Tensor()};
  }
};

}  // namespace

LogisticLoss logisticLoss(const torch::Tensor& rows, const torch::Tensor& weight,
                          const torch::Tensor& bias, const torch::Tensor& target) {
  const auto outputs =
      LossFunction::apply(rows.contiguous(), weight.contiguous(), bias, target.contiguous());
  return {outputs[0], outputs[1]};
}

}  // namespace colla::models
