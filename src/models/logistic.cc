#include <fmt/format.h>

#include "models/makers.h"

namespace colla::models {
namespace {

struct LogisticImpl : torch::nn::Module {
  explicit LogisticImpl(std::int64_t features)
      : linear(register_module("linear", torch::nn::Linear(features, 1))) {}
  // A logit for each sample. A product of a matrix with a vector: libtorch has no fast path for a
  // linear layer with one output.
  torch::Tensor forward(const torch::Tensor& input) {
    return torch::addmv(linear->bias, input.flatten(1), linear->weight.view(-1));
  }
  torch::nn::Linear linear;
};

// By hand, as accuracyOf() is, and for the same reason.
double shareRight(const torch::Tensor& logits, const torch::Tensor& target) {
  const torch::Tensor values = logits.detach().to(torch::kFloat32).contiguous();
  const auto* logit = values.const_data_ptr<float>();
  const auto* label = target.const_data_ptr<std::int64_t>();
  const std::int64_t samples = values.numel();
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < samples; ++i) right += (logit[i] > 0) == (label[i] == 1) ? 1 : 0;
  return samples == 0 ? 0 : static_cast<double>(right) / static_cast<double>(samples);
}

class Logistic final : public Model {
 public:
  explicit Logistic(std::int64_t features) : net_(features) {}
  torch::nn::Module& module() override { return net_; }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  Output compute(const std::vector<torch::Tensor>& batch) override {
    const torch::Tensor target = batch.at(1).contiguous();
    const torch::Tensor logits = net_.forward(batch.at(0));
    return {torch::binary_cross_entropy_with_logits(logits, target.to(logits.scalar_type())),
            {shareRight(logits, target)}};
  }

 private:
  LogisticImpl net_;
};

}  // namespace

Result<MakeModel> makeLogistic(const DataShape& data, const Values& /*values*/) {
  COLLA_TRY_ASSIGN(const std::int64_t features, featuresOf(data));
  if (data.classes != 2) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("lr tells two classes apart, but the data has {}: use softmax", data.classes)};
  }
  return MakeModel([features] { return std::make_unique<Logistic>(features); });
}

}  // namespace colla::models
