// What a training run tells the world about itself: the values that every writer here takes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace colla::observe {

// A named number, such as {"accuracy", 0.93}.
struct Metric {
  std::string_view name;
  double value = 0;
};
using Metrics = std::span<const Metric>;

// One finished step of training.
struct Step {
  std::int64_t number = 0;  // The first one is 1.
  // Seconds since this process began to train.
  double start = 0;
  double end = 0;
  std::int64_t samples = 0;  // Of the whole global batch.
  double loss = 0;
  Metrics metrics;  // All but the loss.

  double seconds() const { return end - start; }
};

// A finished run, or the part of it since it was resumed.
struct Totals {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  double loss = 0;
  Metrics metrics;              // The final ones, those of the last evaluation included.
  std::int64_t peakMemory = 0;  // Bytes: see peakMemory().
};

}  // namespace colla::observe
