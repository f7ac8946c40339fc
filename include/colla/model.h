// What is trained: a libtorch module together with its loss.
//
//   struct Net : torch::nn::Module {
//     torch::Tensor forward(const torch::Tensor& input) { return out(input.flatten(1)); }
//     torch::nn::Linear out = register_module("out", torch::nn::Linear(784, 10));
//   };
//   colla::MakeModel make = [] { return colla::classifier(std::make_shared<Net>()); };
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace colla {

struct Output {
  torch::Tensor loss;           // Mean over the samples of the batch, to be differentiated.
  std::vector<double> metrics;  // Means over the same samples, one for each of Model::metrics().
};

// One replica of a model. Used by one thread; each replica has an object of its own.
class Model {
 public:
  virtual ~Model() = default;

  // Its parameters and buffers are what is trained and saved, under their names there.
  virtual torch::nn::Module& module() = 0;
  // Names of what compute() tells beside the loss.
  virtual std::vector<std::string> metrics() const { return {}; }
  // What is told of metrics whose means over many samples are `means`: for those that are no means
  // themselves, such as a perplexity. As many numbers.
  virtual std::vector<double> shown(std::vector<double> means) const { return means; }
  // Whether a lower value of one of metrics() is a better one; a lower loss always is.
  virtual bool lowerIsBetter(const std::string& metric) const {
    for (const char* word : {"loss", "error", "perplexity"}) {
      if (metric.find(word) != std::string::npos) return true;
    }
    return false;
  }
  // Names of parameters whose gradients have few rows, as an embedding made with sparse(true) gives
  // them: those rows alone are exchanged and updated. Each of them gets a sparse gradient of
  // float32 in every backward, or none.
  virtual std::vector<std::string> rowSparse() const { return {}; }
  // Loss and metrics of one slice's batch, whose tensors are as the data set gives them. The module
  // is in training mode, or not when it is evaluated.
  virtual Output compute(const std::vector<torch::Tensor>& batch) = 0;
};

// Makes a replica. Called with libtorch's generator seeded: models made after each other are equal.
using MakeModel = std::function<std::unique_ptr<Model>()>;

// Share of the rows of `logits` whose largest element is at the place that `target` says.
double accuracyOf(const torch::Tensor& logits, const torch::Tensor& target);

// Throws colla::Error where a batch lacks the input or the target, which modelOf() and classifier()
// take from its first two fields.
void checkInputAndTarget(const std::vector<torch::Tensor>& batch);

// A module with forward(input), and `loss(output, target)` that gives the mean over a batch of
// input and target. Null for a null module, which the Trainer refuses.
template <typename Net, typename Loss>
std::unique_ptr<Model> modelOf(std::shared_ptr<Net> net, Loss loss) {
  class Simple final : public Model {
   public:
    Simple(std::shared_ptr<Net> net, Loss loss) : net_(std::move(net)), loss_(std::move(loss)) {}
    torch::nn::Module& module() override { return *net_; }
    Output compute(const std::vector<torch::Tensor>& batch) override {
      checkInputAndTarget(batch);
      return {loss_(net_->forward(batch[0]), batch[1]), {}};
    }

   private:
    std::shared_ptr<Net> net_;
    Loss loss_;
  };
  if (net == nullptr) return nullptr;
  return std::make_unique<Simple>(std::move(net), std::move(loss));
}

// A module whose forward(input) gives a logit for each class: cross entropy and accuracy. Null for
// a null module.
template <typename Net>
std::unique_ptr<Model> classifier(std::shared_ptr<Net> net) {
  class Classifier final : public Model {
   public:
    explicit Classifier(std::shared_ptr<Net> net) : net_(std::move(net)) {}
    torch::nn::Module& module() override { return *net_; }
    std::vector<std::string> metrics() const override { return {"accuracy"}; }
    Output compute(const std::vector<torch::Tensor>& batch) override {
      checkInputAndTarget(batch);
      const torch::Tensor logits = net_->forward(batch[0]);
      return {torch::nn::functional::cross_entropy(logits, batch[1]),
              {accuracyOf(logits, batch[1])}};
    }

   private:
    std::shared_ptr<Net> net_;
  };
  if (net == nullptr) return nullptr;
  return std::make_unique<Classifier>(std::move(net));
}

}  // namespace colla
