// Makes a folder of captioned images (record/captions.h) of images and annotations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "colla/status.h"

namespace colla::data {

struct CaptionsPlan {
  std::string images;       // Folder.
  std::string annotations;  // COCO-style JSON.
  std::string out;          // Folder; made if it is not there.
  // File with the words; empty: made of the training part's captions, with the limits below.
  std::string vocabulary;
  std::int64_t words = 0;     // 0: no limit.
  std::int64_t minCount = 4;  // As Show and Tell has it.
  double testShare = 0.1;     // Of the images, evenly spread; from 0 to below 1.
};

struct CaptionsMade {
  std::int64_t train = 0;  // Images.
  std::int64_t test = 0;
  std::int64_t captions = 0;
  std::int64_t skipped = 0;  // Images without a caption.
  std::int64_t words = 0;    // Of the vocabulary.
};

// Letters of captions become small (those of ASCII), and words are cut as everywhere. Every image
// is decoded once, so that a damaged one is found now. `progress` is told the images done, of how
// many. kRefused where `out` has such files already; files appear under their names when they are
// complete.
Result<CaptionsMade> makeCaptions(
    const CaptionsPlan& plan,
    const std::function<void(std::int64_t done, std::int64_t all)>& progress);

}  // namespace colla::data
