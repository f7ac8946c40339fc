// Samples of which most features are zero: only the others are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// The features of all samples, one behind the other.
struct SparseRows {
  // Sample i has those from begins[i] to begins[i + 1].
  std::vector<std::int64_t> begins{0};
  std::vector<std::int32_t> features;
  std::vector<float> values;
  std::vector<std::int64_t> labels;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  void add(std::int32_t feature, float value) {
    features.push_back(feature);
    values.push_back(value);
  }
  // What was added since the last one is a sample.
  void end(std::int64_t label) {
    labels.push_back(label);
    begins.push_back(static_cast<std::int64_t>(features.size()));
  }
};

// Fields feature (int64) and value (float32), both as long as the longest sample of a batch and at
// least 1, padded with feature 0 and value 0; and label. Features are from 0 to `features` - 1.
// `labels` are the names of the classes. kInvalidArgument where there are no samples.
Result<std::shared_ptr<const Dataset>> sparseDataset(std::string title, SparseRows rows,
                                                     std::int64_t features,
                                                     std::vector<std::string> labels);

}  // namespace colla::data
