#include "models.h"

#include <fmt/format.h>

#include "models/catalog.h"

namespace colla::bench {
namespace {

using torch::nn::Linear;
namespace functional = torch::nn::functional;

struct Layers : torch::nn::Module {
  explicit Layers(const std::vector<std::int64_t>& widths) {
    for (std::size_t i = 1; i < widths.size(); ++i) {
      layers.push_back(
          register_module(fmt::format("layer{}", i), Linear(widths[i - 1], widths[i])));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](i == 0 ? x : torch::relu(x));
    }
    return x;
  }
  std::vector<Linear> layers;
};

MakeModel classifierOf(const std::vector<std::int64_t>& widths) {
  return [widths] {
    return modelOf(std::make_shared<Layers>(widths),
                   [](const torch::Tensor& output, const torch::Tensor& target) {
                     return functional::cross_entropy(output, target);
                   });
  };
}

// The one that `colla train` trains, but without dropout.
Result<MakeModel> deepFam(const char* norm) {
  COLLA_TRY_ASSIGN(const models::Entry* const entry, models::findModel("deepfam"));
  models::Values values = models::defaults(entry->flags);
  values["keep-prob"] = "1";
  values["norm"] = norm;
  const models::DataShape data{
      {{"sequence", DataType::kUInt8, {1000}}, {"label", DataType::kInt64, {}}}, 48, 25};
  return entry->make(data, values);
}

}  // namespace

Result<MakeModel> modelNamed(std::string_view name) {
  if (name == "deepfam") return deepFam("batch");
  if (name == "deepfam-none") return deepFam("none");
  if (name == "softmax") return classifierOf({784, 10});
  if (name == "snn") return classifierOf({784, 100, 10});
  if (name == "mlp") return classifierOf({784, 100, 100, 10});
  if (name == "lr") {
    return MakeModel([] {
      return modelOf(std::make_shared<Layers>(std::vector<std::int64_t>{10'000, 1}),
                     [](const torch::Tensor& output, const torch::Tensor& target) {
                       return functional::binary_cross_entropy_with_logits(output.squeeze(1),
                                                                           target);
                     });
    });
  }
  return {StatusCode::kInvalidArgument, fmt::format("there is no model {}", name)};
}

}  // namespace colla::bench
