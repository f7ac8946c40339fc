// Annotations as COCO has them: a JSON file that names images and gives them captions.
//
//   {"images": [{"id": 9, "file_name": "9.jpg"}, …],
//    "annotations": [{"image_id": 9, "caption": "Two dogs on a lawn."}, …]}
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::data {

struct AnnotatedImage {
  std::string file;
  std::vector<std::string> captions;  // None for an image that has no annotation.
};

// In the order of the file. kIo, with `name` and the place, for what is not of this form, for two
// images with one id, an annotation of an image that is not there, and for names of files that lead
// out of their folder.
Result<std::vector<AnnotatedImage>> parseCoco(std::span<const std::byte> file,
                                              std::string_view name);

}  // namespace colla::data
