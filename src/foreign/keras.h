// Keras' files of weights: .weights.h5, .h5 of a whole model, and .keras, a zip archive with one in
// it.
#pragma once

#include <string>

#include "checkpoint/listing.h"
#include "colla/status.h"

namespace colla::foreign {

// Every data set, under its path in the file: "layers/dense/vars/0".
Result<checkpoint::Listing> openKeras(const std::string& path);

}  // namespace colla::foreign
