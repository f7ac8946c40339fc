#include "train/state.h"

#include "checkpoint/restore.h"
#include "colla/error.h"
#include "train/exchange/tensor_views.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

void appendTargets(std::vector<checkpoint::Target>& targets, std::span<const Parameter> tensors) {
  for (const Parameter& tensor : tensors) {
    const Buffer memory = memoryOf(tensor.tensor, tensor.name);
    targets.push_back({tensor.name, memory.type(), tensor.tensor.sizes().vec(), memory.bytes()});
  }
}

}  // namespace

void saveState(checkpoint::Saver& saver, const checkpoint::Manifest& manifest,
               const Replica& replica, const ExchangeState& state, bool best) {
  std::vector<checkpoint::TensorView> parameters;
  appendViews(parameters, replica.frozen());
  parameters.insert(parameters.end(), state.parameters.begin(), state.parameters.end());
  throwIfError(saver.start(
      manifest, {.parameters = parameters, .buffers = state.buffers, .optimizer = state.optimizer},
      state.later, best));
}

void restoreModel(Replica& replica, const checkpoint::Loaded& loaded) {
  std::vector<checkpoint::Target> targets;
  appendTargets(targets, replica.parameters());
  appendTargets(targets, replica.frozen());
  appendTargets(targets, replica.buffers());
  throwIfError(checkpoint::restore(loaded.model(), targets).withContext(loaded.path()));
}

void broadcastModel(Group& group, Replica& replica) {
  std::vector<Parameter> all = replica.parameters();
  for (const auto* more : {&replica.frozen(), &replica.buffers()}) {
    all.insert(all.end(), more->begin(), more->end());
  }
  broadcastTensors(group, all);
}

}  // namespace colla::train
