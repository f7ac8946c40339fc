// The tensors of a checkpoint or of a file, whoever wrote it, as compare() and inspect() look at
// them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/loaded.h"
#include "checkpoint/source.h"
#include "checkpoint/tensor_view.h"

namespace colla::checkpoint {

struct ListedTensor {
  Part part = Part::kTensor;
  TensorView tensor;
  // The type's name in the file, if Colla has no such type: "uint32", whose values the view's type
  // has room for, or "string", of which the view has the bytes.
  std::string foreignType{};

  std::string typeText() const {
    return foreignType.empty() ? std::string(toString(tensor.type)) : foreignType;
  }
};

struct Listing {
  std::string path;
  const Loaded* checkpoint = nullptr;  // Null for what has no manifest.
  std::vector<ListedTensor> tensors;   // Of each part by name.
  // Keeps the memory of the tensors alive; null if the caller does.
  std::shared_ptr<const void> memory{};
};

// `source` must outlive it.
Listing listingOf(const Source& source);
// The listing keeps the source.
Listing listingOf(Source&& source);

}  // namespace colla::checkpoint
