#include "train/groups.h"

#include <algorithm>
#include <iterator>

#include "colla/error.h"
#include "optim/parameter_groups.h"

namespace colla::train {

void freeze(torch::nn::Module& module, std::span<const ParameterGroup> groups) {
  if (groups.empty()) return;
  std::vector<std::string> names;
  std::vector<torch::Tensor> tensors;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    names.push_back(item.key());
    tensors.push_back(item.value());
  }
  const auto found = valueOrThrow(optim::groupsOf(groups, names));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (found[i] && groups[*found[i]].frozen) tensors[i].set_requires_grad(false);
  }
}

MakeModel modelMakerOf(const Task& task) {
  if (task.groups.empty() || !task.model) return task.model;
  return [make = task.model, groups = task.groups] {
    std::unique_ptr<Model> model = make();
    if (model) freeze(model->module(), groups);
    return model;
  };
}

std::vector<Parameter> withOptimizers(std::vector<Parameter> parameters, const Optimizer& base,
                                      std::span<const ParameterGroup> groups) {
  const auto* const options = std::get_if<OptimizerOptions>(&base);
  if (options == nullptr) return parameters;
  std::vector<ParameterGroup> trained;
  std::ranges::copy_if(groups, std::back_inserter(trained),
                       [](const ParameterGroup& group) { return !group.frozen; });
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  const auto found = valueOrThrow(optim::groupsOf(trained, names));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (found[i]) parameters[i].optimizer = optim::optimizerOf(trained[*found[i]], *options);
  }
  return parameters;
}

}  // namespace colla::train
