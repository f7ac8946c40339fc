// A checkpoint or tensor file in numbers: what is in it, and how large it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/listing.h"
#include "checkpoint/manifest.h"
#include "checkpoint/source.h"

namespace colla::checkpoint {

struct TensorSummary {
  std::string name;
  Part part = Part::kTensor;
  std::string type;
  Shape shape;
  std::uint64_t elements = 0;
  double norm = 0;  // Euclidean, added up in float64.
};

struct Inspection {
  std::string path;
  std::optional<Manifest> manifest;
  std::vector<TensorSummary> tensors;
  std::uint64_t parameters = 0;  // Elements of all parameters; of all tensors in a single file.
};

// Reads every tensor once.
Inspection inspect(const Listing& listing);
Inspection inspect(const Source& source);

}  // namespace colla::checkpoint
