#include "train/torch_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "colla/error.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// What libtorch's archives of optimizers begin with.
constexpr char kFormat[] = "1.5.0";

InputArchive reopened(OutputArchive& archive) {
  std::stringstream stream;
  archive.save_to(stream);
  InputArchive input;
  input.load_from(stream);
  return input;
}

void copy(InputArchive& from, OutputArchive& to) {
  for (const std::string& key : from.keys()) {
    InputArchive nested;
    if (from.try_read(key, nested)) {
      OutputArchive out(to.compilation_unit());
      copy(nested, out);
      to.write(key, out);
    } else {
      torch::IValue value;
      from.read(key, value);
      to.write(key, value);
    }
  }
}

torch::Tensor toTensor(const torch::IValue& value, const std::string& name) {
  if (value.isTensor()) return value.toTensor().detach().contiguous();
  if (value.isInt()) return torch::tensor(value.toInt(), torch::kInt64);
  if (value.isDouble()) return torch::tensor(value.toDouble(), torch::kFloat64);
  if (value.isBool()) return torch::tensor(value.toBool(), torch::kBool);
  throw Error(StatusCode::kUnsupported,
              fmt::format("the optimizer's \"{}\" is neither a tensor nor a number: this "
                          "torch::optim class can be trained with, but not saved",
                          name));
}

// A number is told from a tensor without dimensions by its type: libtorch's state has no others.
torch::IValue toValue(const torch::Tensor& tensor) {
  if (tensor.dim() > 0) return tensor;
  switch (tensor.scalar_type()) {
    case torch::kInt64:
      return tensor.item<std::int64_t>();
    case torch::kBool:
      return tensor.item<bool>();
    default:
      return tensor;
  }
}

// Those that the optimizer was made with, by the names in `all`.
NamedTensors parametersOf(torch::optim::Optimizer& optimizer, const NamedTensors& all) {
  NamedTensors parameters;
  for (auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      const auto named = std::ranges::find_if(
          all, [&](const auto& known) { return known.second.is_same(parameter); });
      if (named == all.end()) {
        throw Error(StatusCode::kInvalidArgument,
                    "the optimizer has a parameter that the model does not train");
      }
      parameters.push_back(*named);
    }
  }
  return parameters;
}

}  // namespace

NamedTensors contiguous(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().contiguous();
  return tensors;
}

std::vector<checkpoint::TensorView> viewsOf(const NamedTensors& tensors) {
  std::vector<checkpoint::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    const Buffer memory = memoryOf(tensor, name);
    views.push_back({name, memory.type(), tensor.sizes().vec(), memory.bytes()});
  }
  return views;
}

NamedTensors tensorsOf(std::span<const checkpoint::TensorView> views) {
  NamedTensors tensors;
  for (const checkpoint::TensorView& view : views) {
    const torch::Tensor tensor = torch::empty(view.shape, scalarTypeOf(view.type));
    std::ranges::copy(view.bytes, memoryOf(tensor, view.name).bytes().begin());
    tensors.emplace_back(view.name, tensor);
  }
  return tensors;
}

NamedTensors readState(torch::optim::Optimizer& optimizer, const NamedTensors& all) {
  NamedTensors state;
  for (const auto& [parameter, tensor] : parametersOf(optimizer, all)) {
    const auto found = optimizer.state().find(tensor.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    OutputArchive archive;
    found->second->serialize(archive);
    InputArchive input = reopened(archive);
    for (const std::string& key : input.keys()) {
      torch::IValue value;
      input.read(key, value);
      if (value.isNone()) continue;
      const std::string name = parameter + "/" + key;
      state.emplace_back(name, toTensor(value, name));
    }
  }
  return state;
}

void writeState(torch::optim::Optimizer& optimizer, const NamedTensors& all,
                const NamedTensors& state) {
  OutputArchive archive;
  OutputArchive states(archive.compilation_unit());
  for (const auto& [parameter, memory] : parametersOf(optimizer, all)) {
    OutputArchive one(archive.compilation_unit());
    bool any = false;
    const std::string prefix = parameter + "/";
    for (const auto& [name, tensor] : state) {
      if (!name.starts_with(prefix)) continue;
      one.write(name.substr(prefix.size()), toValue(tensor));
      any = true;
    }
    const auto key = reinterpret_cast<std::size_t>(memory.unsafeGetTensorImpl());
    if (any) states.write(std::to_string(key), one);
  }
  archive.write("pytorch_version", torch::IValue(kFormat));
  archive.write("state", states);

  // Groups and their options stay the program's own.
  OutputArchive own;
  optimizer.save(own);
  InputArchive input = reopened(own);
  InputArchive groups;
  input.read("param_groups", groups);
  OutputArchive outGroups(archive.compilation_unit());
  copy(groups, outGroups);
  archive.write("param_groups", outGroups);

  InputArchive whole = reopened(archive);
  optimizer.load(whole);
}

}  // namespace colla::train
