// MNIST, and sets that come in the same files, such as Fashion-MNIST: images of one channel in ten
// classes.
#pragma once

#include <memory>
#include <string>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// Whether `folder` has files with the names of MNIST's.
bool looksLikeMnist(const std::string& folder);

// `part` of the set in `folder`: field image, float32 1 x rows x columns from 0 to 1, scaled
// and cropped as `options` say, and field label, int64 from 0 to 9. Everything is read and checked
// here, so that nothing is left to fail in training.
Result<std::shared_ptr<const Dataset>> openMnist(const std::string& folder, Part part,
                                                 const ReadOptions& options = {});

}  // namespace colla::data
