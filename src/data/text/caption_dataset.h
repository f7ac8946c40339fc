// Images that are described in words, wherever they come from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"
#include "data/image/image.h"
#include "data/image/transform.h"

namespace colla::data {

// Words by number, without <s> and </s>.
using Caption = std::vector<std::int32_t>;

struct CaptionedImage {
  Image image;
  std::vector<Caption> captions;  // At least one.
};

// Where they come from. Thread safe.
class CaptionSource {
 public:
  virtual ~CaptionSource() = default;
  virtual std::int64_t size() const = 0;
  // By number.
  virtual std::vector<std::string> words() const = 0;
  virtual bool inMemory() const = 0;
  // An error names the file and the record.
  virtual Result<CaptionedImage> read(std::int64_t index) const = 0;
};

// Field image is float32 3 x height x width, scaled to what `options` ask for, else to
// `defaultSize`. Field caption (int64) is <s>, the words and </s>, padded with <pad> to the longest
// of the batch; options.length limits it, </s> included. Field length counts <s> and </s>. Of
// several captions of an image the training part takes one at random, the test part the first.
Result<std::shared_ptr<const Dataset>> captionDataset(std::string title,
                                                      std::shared_ptr<const CaptionSource> source,
                                                      ImageSize defaultSize, Part part,
                                                      const ReadOptions& options);

}  // namespace colla::data
