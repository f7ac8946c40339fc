// Images in folders named after their classes.
#pragma once

#include <memory>
#include <string>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// Whether `folder` has folders with images, or the parts described below.
bool looksLikeImages(const std::string& folder);

// `part` of the images in `folder`: FOLDER/train/CLASS/* and FOLDER/test/CLASS/* (or val), or just
// FOLDER/CLASS/*, of which every fifth image of a class, by name, is for the test. Classes are
// numbered in the order of their names, and those of the test part have to be among those of the
// training part.
//
// Files are found here, where an empty one is refused, and read and decoded in read(). Field image
// is float32 3 x height x width from 0 to 1; all are scaled to the size that `options` ask for,
// else to that of the first. Field label is the class.
Result<std::shared_ptr<const Dataset>> openImages(const std::string& folder, Part part,
                                                  const ReadOptions& options);

}  // namespace colla::data
