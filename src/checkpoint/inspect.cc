#include "checkpoint/inspect.h"

#include <cmath>

#include "checkpoint/numbers.h"

namespace colla::checkpoint {
namespace {

double normOf(const TensorView& tensor) {
  return visitType(tensor.type, [&tensor](auto type) {
    double sum = 0;
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      const double value = valueOf(loadElement<decltype(type)>(tensor.bytes, i));
      sum += value * value;
    }
    return std::sqrt(sum);
  });
}

}  // namespace

Inspection inspect(const Source& source) {
  Inspection inspection;
  inspection.path = source.path();
  if (source.checkpoint() != nullptr) inspection.manifest = source.checkpoint()->manifest();
  for (const Item& item : source.items()) {
    const TensorView& tensor = *item.tensor;
    inspection.tensors.push_back(
        {tensor.name, item.part, tensor.type, tensor.shape, tensor.elements(), normOf(tensor)});
    if (item.part == Part::kParameter || item.part == Part::kTensor)
      inspection.parameters += tensor.elements();
  }
  return inspection;
}

}  // namespace colla::checkpoint
