// What `colla predict` asks of a model.
#pragma once

#include <torch/torch.h>

#include <string>
#include <variant>
#include <vector>

namespace colla::models {

// Something that is told of every sample of a batch: a number each (a tensor of one dimension),
// several numbers each (of two), or a text each.
struct Column {
  std::string name;
  std::variant<torch::Tensor, std::vector<std::string>> values;
};

// A Model that can say more than its loss derives from this too.
class Predicts {
 public:
  virtual ~Predicts() = default;
  // The same columns for every batch. Called without gradients, the module not in training mode.
  virtual std::vector<Column> predict(const std::vector<torch::Tensor>& batch) = 0;
};

}  // namespace colla::models
