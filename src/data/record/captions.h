// Images with captions in TFRecord files, as `colla data captions` makes them.
//
// A record is the tf.Example of one image: its file (JPEG or PNG), its name, and its captions,
// words separated by spaces. A folder has train.tfrecord, test.tfrecord and vocab.txt.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// The names of the features.
inline constexpr std::string_view kImageFeature = "image/encoded";
inline constexpr std::string_view kNameFeature = "image/name";
inline constexpr std::string_view kCaptionsFeature = "image/captions";

inline constexpr std::string_view kVocabularyFile = "vocab.txt";
// "train.tfrecord"
std::string captionsFile(Part part);

bool looksLikeCaptions(const std::string& folder);

// `part` of such a folder, with the words numbered by the file that `options` name, else by
// vocab.txt. Samples are those of captionDataset(), one per image, in the size of the first image
// unless `options` ask for one. Records are found here, and read and decoded in read().
Result<std::shared_ptr<const Dataset>> openCaptions(const std::string& folder, Part part,
                                                    const ReadOptions& options);

}  // namespace colla::data
