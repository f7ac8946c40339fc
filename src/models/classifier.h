// A model that gives a logit for each class: as colla::classifier(), and it tells `colla predict`
// the classes with their probabilities.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "colla/model.h"
#include "models/predicts.h"

namespace colla::models {

// class: the likeliest; probabilities: of all classes (logits where there is no softmax).
inline std::vector<Column> classColumns(const torch::Tensor& logits, bool softmax = true) {
  return {{"class", logits.argmax(1)},
          softmax ? Column{"probability", logits.softmax(1)} : Column{"logit", logits}};
}

template <typename Net>
std::unique_ptr<Model> classifierOf(std::shared_ptr<Net> net) {
  class Classifier final : public Model, public Predicts {
   public:
    explicit Classifier(std::shared_ptr<Net> net) : net_(std::move(net)) {}
    torch::nn::Module& module() override { return *net_; }
    std::vector<std::string> metrics() const override { return {"accuracy"}; }
    Output compute(const std::vector<torch::Tensor>& batch) override {
      const torch::Tensor logits = net_->forward(batch.at(0));
      return {torch::nn::functional::cross_entropy(logits, batch.at(1)),
              {accuracyOf(logits, batch.at(1))}};
    }
    std::vector<Column> predict(const std::vector<torch::Tensor>& batch) override {
      return classColumns(net_->forward(batch.at(0)));
    }

   private:
    std::shared_ptr<Net> net_;
  };
  return std::make_unique<Classifier>(std::move(net));
}

}  // namespace colla::models
