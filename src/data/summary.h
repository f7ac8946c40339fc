// What is in a data set, in numbers: for `colla data info`.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

struct FieldSummary {
  Field field;
  // Over the samples that were looked at, padding included.
  double smallest = 0;
  double largest = 0;
  double mean = 0;
};

struct Summary {
  std::int64_t samples = 0;
  std::int64_t lookedAt = 0;
  std::vector<FieldSummary> fields;
};

// Reads up to `limit` samples, evenly spread. Fields of types other than float32, int64 and uint8
// keep zeros.
Result<Summary> summarise(const Dataset& dataset, std::int64_t limit);

// Samples per second that one thread reads, in shuffled batches of 64, tried for `time`.
Result<double> readingSpeed(const Dataset& dataset, std::chrono::milliseconds time);

}  // namespace colla::data
