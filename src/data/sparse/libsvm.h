// The text format of libsvm: a sample per line, with the features that are not zero.
//
//   +1 1:0.708333 3:1 13:-1   # a comment
//
// Labels are whole numbers, features count from 1 and come in ascending order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "colla/dataset.h"
#include "colla/status.h"
#include "data/sparse/sparse_dataset.h"
#include "data/split.h"

namespace colla::data {

struct LibsvmSamples {
  SparseRows rows;                              // Labels as they are; features count from 0.
  std::map<std::int64_t, std::int64_t> labels;  // All that occur, with the line of the first.
  std::int64_t features = 0;                    // One above the largest.
};

// Adds the samples of `share` of the file to `samples`, and the labels and the number of features
// of all. kIo, with `name` and the line, for what is not of this form.
Status parseLibsvm(std::span<const std::byte> file, std::string_view name, Share share,
                   LibsvmSamples& samples);

// `part` of FILE: FILE itself and FILE.t for the test, as libsvm's data sets come; where there is
// no FILE.t, every fifth sample of FILE is for the test. The classes are the labels in sorted order
// (-1 and +1 become 0 and 1), a file's feature 1 is feature 0. Both files are looked through, so
// that the parts agree on features, and FILE.t has no label that FILE lacks.
Result<std::shared_ptr<const Dataset>> openLibsvm(const std::string& file, Part part);

}  // namespace colla::data
