// Labelled images in TFRecord files, as TensorFlow's programs for image classification have them.
//
// A record is the tf.Example of one image: its file (JPEG or PNG) in image/encoded, its class in
// image/class/label.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

inline constexpr std::string_view kLabelFeature = "image/class/label";

// `part` of the records in `path`: a folder, whose files have .tfrecord or -of- in their names and
// train, or test or val for the test ("train-00000-of-01024"); or one file, of which every fifth
// record is for the test.
//
// The classes are those of labels.txt beside them, one "NUMBER:NAME" per line. Where there is none,
// all training records are read here, and the largest label is the last class; so are those of the
// test part, whose labels have to be among the classes. Records are found here, and read and
// decoded in read(), which refuses a label that is none of the classes.
Result<std::shared_ptr<const Dataset>> openRecordImages(const std::string& path, Part part,
                                                        const ReadOptions& options);

}  // namespace colla::data
