// Reads data sets for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colla/dataset.h"

namespace colla::data {

inline ReadOptions sized(std::int64_t height, std::int64_t width) {
  ReadOptions options;
  options.height = height;
  options.width = width;
  return options;
}
inline ReadOptions ofLength(std::int64_t length) {
  ReadOptions options;
  options.length = length;
  return options;
}
inline ReadOptions augmented(ReadOptions options = {}) {
  options.augment = true;
  return options;
}
inline ReadOptions withWords(std::string vocabulary, std::int64_t length = 0) {
  ReadOptions options = ofLength(length);
  options.vocabulary = std::move(vocabulary);
  return options;
}

// All samples in order, in one batch. Throws on errors.
Batch readAll(const Dataset& dataset, std::uint64_t seed = 0);
Batch readSome(const Dataset& dataset, const std::vector<std::int64_t>& indices,
               std::uint64_t seed = 0);

// Of the bytes of all samples.
std::uint32_t checksum(const Dataset& dataset);

// openDataset() that throws what went wrong.
std::shared_ptr<const Dataset> opened(std::string_view name, Part part = Part::kTrain,
                                      const ReadOptions& options = {});
// What it says when it refuses; throws if it does not.
std::string refusal(std::string_view name, Part part = Part::kTrain,
                    const ReadOptions& options = {});

}  // namespace colla::data
