#include "models/weights.h"

#include "checkpoint/restore.h"
#include "colla/error.h"
#include "train/tensors.h"

namespace colla::models {

Result<Weights> openWeights(const Values& values, const std::string& flag) {
  const std::string& text = values.find(flag)->second;
  if (text == "none") return Weights();
  auto file = checkpoint::TensorFile::open(text);
  if (!file.ok()) return file.status().withContext("--" + flag);
  return Weights(std::make_shared<const checkpoint::TensorFile>(*std::move(file)));
}

void loadWeights(torch::nn::Module& module, const Weights& weights, std::string_view except) {
  if (weights) {
    loadTensors(module, weights->tensors(), weights->path(), except);
  }
}

void loadTensors(torch::nn::Module& module, std::span<const checkpoint::TensorView> all,
                 const std::string& where, std::string_view except) {
  const auto wanted = [&](std::string_view name) {
    return except.empty() || !name.starts_with(except);
  };
  std::vector<checkpoint::TensorView> saved;
  for (const checkpoint::TensorView& tensor : all) {
    if (wanted(tensor.name)) saved.push_back(tensor);
  }
  std::vector<checkpoint::Target> targets;
  const auto add = [&](const auto& tensors) {
    for (const auto& item : tensors) {
      if (!wanted(item.key())) continue;
      const Buffer memory = train::memoryOf(item.value(), item.key());
      targets.push_back({item.key(), memory.type(), item.value().sizes().vec(), memory.bytes()});
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  throwIfError(checkpoint::restore(saved, targets).withContext(where));
}

// Called by a constructor, when nobody owns `module` itself yet.
void initialiseAsKeras(torch::nn::Module& module) {
  const torch::NoGradGuard noGrad;
  const auto begin = [](torch::Tensor& weight, torch::Tensor& bias) {
    torch::nn::init::xavier_uniform_(weight);
    if (bias.defined()) bias.zero_();
  };
  for (const auto& part : module.modules(false)) {
    if (auto* conv = part->as<torch::nn::Conv2d>()) begin(conv->weight, conv->bias);
    if (auto* dense = part->as<torch::nn::Linear>()) begin(dense->weight, dense->bias);
  }
}

}  // namespace colla::models
