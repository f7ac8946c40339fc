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

Inspection inspect(const Source& source) { return inspect(listingOf(source)); }

Inspection inspect(const Listing& listing) {
  Inspection inspection;
  inspection.path = listing.path;
  if (listing.checkpoint != nullptr) inspection.manifest = listing.checkpoint->manifest();
  for (const ListedTensor& listed : listing.tensors) {
    const TensorView& tensor = listed.tensor;
    inspection.tensors.push_back({tensor.name, listed.part, listed.typeText(), tensor.shape,
                                  tensor.elements(), normOf(tensor)});
    if (listed.part == Part::kParameter || listed.part == Part::kTensor)
      inspection.parameters += tensor.elements();
  }
  return inspection;
}

}  // namespace colla::checkpoint
