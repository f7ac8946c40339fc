#include "train/state.h"

#include "checkpoint/restore.h"
#include "colla/error.h"
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

}  // namespace

void saveState(checkpoint::Saver& saver, const checkpoint::Manifest& manifest, Replica& replica) {
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
    more = [servers, copy = std::make_shared<std::shared_ptr<const Servers::Copy>>()]()
        -> Result<checkpoint::Contents> {
      COLLA_TRY_ASSIGN(*copy, servers->readSnapshot());
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
