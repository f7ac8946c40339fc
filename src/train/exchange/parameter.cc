#include "train/exchange/parameter.h"

#include "colla/collectives.h"
#include "colla/error.h"
#include "train/tensors.h"

namespace colla::train {

void broadcastTensors(Group& group, std::span<const Parameter> tensors) {
  if (group.size() == 1) return;
  for (const Parameter& tensor : tensors) {
    throwIfError(broadcast(group, memoryOf(tensor.tensor, tensor.name), 0));
  }
}

}  // namespace colla::train
