#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "models/logistic_loss.h"
#include "models/makers.h"
#include "models/predicts.h"

namespace colla::models {
namespace {

// A logit for each sample of a batch whose last field is the class.
struct LogitNet : torch::nn::Module {
  virtual torch::Tensor logits(const std::vector<torch::Tensor>& batch) = 0;
  virtual LogisticLoss loss(const std::vector<torch::Tensor>& batch, const torch::Tensor& target) {
    const torch::Tensor all = logits(batch);
    return {torch::binary_cross_entropy_with_logits(all, target.to(all.scalar_type())), all};
  }
  virtual std::vector<std::string> rowSparse() const { return {}; }
};

struct WholeRows final : LogitNet {
  explicit WholeRows(std::int64_t features)
      : linear(register_module("linear", torch::nn::Linear(features, 1))) {}
  // A product of a matrix with a vector: libtorch has no fast path for a linear layer with one
  // output. In training not even two of them: reading the rows is what a step costs.
  torch::Tensor logits(const std::vector<torch::Tensor>& batch) override {
    return torch::addmv(linear->bias, batch.at(0).flatten(1), linear->weight.view(-1));
  }
  LogisticLoss loss(const std::vector<torch::Tensor>& batch, const torch::Tensor& target) override {
    if (!torch::GradMode::is_enabled()) return LogitNet::loss(batch, target);
    return logisticLoss(batch.at(0).flatten(1), linear->weight, linear->bias, target);
  }
  torch::nn::Linear linear;
};

// Samples that have few of many features: numbers of features, and their values. Only the weights
// that a batch touches get a gradient.
struct SparseRows final : LogitNet {
  explicit SparseRows(std::int64_t features)
      : embedding(register_module(
            "embedding",
            torch::nn::Embedding(torch::nn::EmbeddingOptions(features, 1).sparse(true)))),
        bias(register_parameter("bias", torch::zeros(1))) {
    const torch::NoGradGuard noGrad;
    embedding->weight.zero_();
  }
  // Padding has the value 0.
  torch::Tensor logits(const std::vector<torch::Tensor>& batch) override {
    return (embedding->forward(batch.at(0)).squeeze(2) * batch.at(1)).sum(1) + bias;
  }
  std::vector<std::string> rowSparse() const override { return {"embedding.weight"}; }
  torch::nn::Embedding embedding;
  torch::Tensor bias;
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

class Logistic final : public Model, public Predicts {
 public:
  explicit Logistic(std::unique_ptr<LogitNet> net) : net_(std::move(net)) {}
  torch::nn::Module& module() override { return *net_; }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  std::vector<std::string> rowSparse() const override { return net_->rowSparse(); }
  Output compute(const std::vector<torch::Tensor>& batch) override {
    const torch::Tensor target = batch.back().contiguous();
    const auto [loss, logits] = net_->loss(batch, target);
    return {loss, {shareRight(logits, target)}};
  }
  std::vector<Column> predict(const std::vector<torch::Tensor>& batch) override {
    const torch::Tensor chance = torch::sigmoid(net_->logits(batch));
    return {{"class", chance.gt(0.5).to(torch::kInt64)}, {"probability", chance}};
  }

 private:
  std::unique_ptr<LogitNet> net_;
};

bool isSparse(const DataShape& data) {
  return data.fields.size() == 3 && data.symbols > 0 && data.fields[0].type == DataType::kInt64 &&
         data.fields[0].shape.size() == 1 && data.fields[1].type == DataType::kFloat32 &&
         data.fields[1].shape.size() == 1;
}

// " (1, 2, 5)", not all of them where they are many.
std::string namesOf(const std::vector<std::string>& classes) {
  constexpr std::size_t kMost = 10;
  if (classes.empty()) return "";
  return fmt::format(" ({}{})",
                     fmt::join(std::span(classes).first(std::min(classes.size(), kMost)), ", "),
                     classes.size() > kMost ? ", …" : "");
}

}  // namespace

Result<MakeModel> makeLogistic(const DataShape& data, const Values& /*values*/) {
  const bool sparse = isSparse(data);
  std::int64_t features = data.symbols;
  if (!sparse) {
    COLLA_TRY_ASSIGN(features, featuresOf(data));
  }
  if (data.classes != 2) {
    return {StatusCode::kInvalidArgument,
            fmt::format("lr tells two classes apart, but the data has {}{}: {}", data.classes,
                        namesOf(data.words),
                        sparse ? "no model takes more of sparse data" : "use softmax")};
  }
  return MakeModel([features, sparse] {
    return std::make_unique<Logistic>(
        sparse ? std::unique_ptr<LogitNet>(std::make_unique<SparseRows>(features))
               : std::make_unique<WholeRows>(features));
  });
}

}  // namespace colla::models
