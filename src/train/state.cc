#include "train/state.h"

#include <fmt/format.h>

#include "checkpoint/restore.h"
#include "colla/error.h"
#include "ps/finite.h"
#include "train/shared_views.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

void appendViews(std::vector<checkpoint::TensorView>& views, std::span<const Parameter> tensors) {
  for (const Parameter& tensor : tensors) {
    const Buffer memory = memoryOf(tensor.tensor, tensor.name);
    views.push_back({tensor.name, memory.type(), tensor.tensor.sizes().vec(), memory.bytes()});
  }
}

void appendTargets(std::vector<checkpoint::Target>& targets, std::span<const Parameter> tensors) {
  for (const Parameter& tensor : tensors) {
    const Buffer memory = memoryOf(tensor.tensor, tensor.name);
    targets.push_back({tensor.name, memory.type(), tensor.tensor.sizes().vec(), memory.bytes()});
  }
}

// Servers' parameters are of float32 or float64.
const checkpoint::TensorView* badParameter(std::span<const checkpoint::TensorView> parameters) {
  for (const checkpoint::TensorView& view : parameters) {
    const std::size_t count = view.bytes.size() / sizeOf(view.type);
    if (ps::firstNotFinite(view.bytes.data(), count, view.type)) return &view;
  }
  return nullptr;
}

}  // namespace

void saveState(checkpoint::Saver& saver, const checkpoint::Manifest& manifest, Replica& replica,
               const Refusal& refusal) {
  std::vector<checkpoint::TensorView> parameters;
  std::vector<checkpoint::TensorView> buffers;
  std::vector<checkpoint::TensorView> optimizer;
  appendViews(parameters, replica.frozen());
  if (replica.updater() != nullptr) {
    appendViews(parameters, replica.updated());
    appendViews(buffers, replica.buffers());
    optimizer = replica.updater()->state();
  }
  checkpoint::Saver::More more;
  if (Servers* const servers = replica.servers()) {
    more = [servers, refusal, copy = std::make_shared<std::shared_ptr<const Servers::Copy>>()]()
        -> Result<checkpoint::Contents> {
      COLLA_TRY_ASSIGN(*copy, servers->readSnapshot());
      const auto* const bad = refusal ? badParameter((*copy)->parameters) : nullptr;
      if (bad != nullptr) return refusal(fmt::format("\"{}\"", bad->name));
      return checkpoint::Contents{.parameters = (*copy)->parameters,
                                  .buffers = (*copy)->buffers,
                                  .optimizer = (*copy)->optimizer};
    };
  }
  throwIfError(saver.start(manifest,
                           {.parameters = parameters, .buffers = buffers, .optimizer = optimizer},
                           std::move(more)));
}

void restoreModel(Replica& replica, const checkpoint::Loaded* loaded) {
  if (loaded != nullptr) {
    std::vector<checkpoint::Target> targets;
    appendTargets(targets, replica.parameters());
    appendTargets(targets, replica.frozen());
    appendTargets(targets, replica.buffers());
    throwIfError(checkpoint::restore(loaded->model(), targets).withContext(loaded->path()));
  }
  replica.broadcastModel();
}

void restoreState(Group& group, Replica& replica, const checkpoint::Loaded* loaded) {
  restoreModel(replica, loaded);
  if (replica.updater() == nullptr) return;
  std::vector<checkpoint::TensorView> optimizer;
  if (loaded != nullptr) {
    // Servers have the rest.
    for (const checkpoint::TensorView& view : loaded->optimizer()) {
      if (replica.servers() == nullptr || !replica.servers()->updates(view.name)) {
        optimizer.push_back(view);
      }
    }
  }
  const SharedViews shared(group, std::move(optimizer));
  const Status status = replica.updater()->restore(shared.views());
  throwIfError(loaded != nullptr ? status.withContext(loaded->path()) : status);
}

}  // namespace colla::train
