#include <fmt/format.h>

#include "colla/data_type.h"
#include "models/classifier.h"
#include "models/linear.h"
#include "models/makers.h"

namespace colla::models {
namespace {

// Named as a PyTorch user would: fc1, fc2, …
struct DenseImpl : torch::nn::Module {
  explicit DenseImpl(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      layers.push_back(
          register_module(fmt::format("fc{}", i), torch::nn::Linear(sizes[i - 1], sizes[i])));
    }
  }
  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = apply(layers.front(), input.flatten(1));
    for (std::size_t i = 1; i < layers.size(); ++i) {
      x = apply(layers[i], torch::relu_(x));  // Nobody needs what was there before.
    }
    return x;
  }
  static torch::Tensor apply(const torch::nn::Linear& layer, const torch::Tensor& input) {
    return linear(input, layer->weight, layer->bias);
  }
  std::vector<torch::nn::Linear> layers;
};

// One layer alone needs no number.
struct SoftmaxImpl : torch::nn::Module {
  SoftmaxImpl(std::int64_t features, std::int64_t classes)
      : linear(register_module("linear", torch::nn::Linear(features, classes))) {}
  torch::Tensor forward(const torch::Tensor& input) { return linear->forward(input.flatten(1)); }
  torch::nn::Linear linear;
};

Result<MakeModel> makeDense(const DataShape& data, const Values& values, std::size_t hiddenLayers) {
  COLLA_TRY_ASSIGN(const std::int64_t features, featuresOf(data));
  COLLA_TRY_ASSIGN(const std::int64_t hidden, wholeNumber(values, "hidden", 1));
  std::vector<std::int64_t> sizes(hiddenLayers + 2, hidden);
  sizes.front() = features;
  sizes.back() = data.classes;
  return MakeModel([sizes] { return classifierOf(std::make_shared<DenseImpl>(sizes)); });
}

}  // namespace

Result<std::int64_t> featuresOf(const DataShape& data) {
  if (data.fields.size() != 2 || data.classes < 2) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the model takes one input and a class, but the data has {} fields and {} "
                        "classes",
                        data.fields.size(), data.classes)};
  }
  const Field& input = data.fields.front();
  std::int64_t features = 1;
  for (const std::int64_t length : input.shape) features = length < 1 ? 0 : features * length;
  if (input.type != DataType::kFloat32 || features < 1) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the model takes float32 inputs of one size, but \"{}\" is {} of {}",
                        input.name, toString(input.type),
                        features < 1 ? "sizes that vary" : "one size")};
  }
  return features;
}

Result<MakeModel> makeSoftmax(const DataShape& data, const Values& /*values*/) {
  COLLA_TRY_ASSIGN(const std::int64_t features, featuresOf(data));
  return MakeModel([features, classes = data.classes] {
    return classifierOf(std::make_shared<SoftmaxImpl>(features, classes));
  });
}

Result<MakeModel> makeSnn(const DataShape& data, const Values& values) {
  return makeDense(data, values, 1);
}

Result<MakeModel> makeMlp(const DataShape& data, const Values& values) {
  return makeDense(data, values, 2);
}

}  // namespace colla::models
