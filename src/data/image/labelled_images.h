// Images of any size with a class each, read and decoded when they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "colla/dataset.h"
#include "colla/status.h"
#include "data/image/image.h"

namespace colla::data {

struct LabelledImage {
  Image image;
  std::int64_t label = 0;
};

// Where they come from. Thread safe.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t classes() const = 0;
  // An error names the file, and the record where a file has many.
  virtual Result<LabelledImage> read(std::int64_t index) const = 0;
};

// Field image is float32 3 x height x width from 0 to 1, scaled to what `options` ask for, else to
// the size of the first image, which is read here: so it shows early whether they can be read at
// all. Field label is the class. Images of the training part are cropped and flipped where
// `options` say so.
Result<std::shared_ptr<const Dataset>> labelledImages(std::string title,
                                                      std::shared_ptr<const ImageSource> source,
                                                      Part part, const ReadOptions& options);

}  // namespace colla::data
