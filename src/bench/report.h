// What came out: one Measurement for each system and point, as a table for people and as JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/operation.h"

namespace colla::bench {

struct Measurement {
  std::string system;     // "colla", "colla-private", "gloo", …
  std::string buffers;    // "shared" or "private".
  std::string transport;  // "shm", "tcp", "tcp-plain"; "memory" where no library is.
  Operation operation = Operation::kAllreduce;
  int np = 0;
  std::size_t bytes = 0;  // Of the whole buffer; 0 for a barrier.
  double seconds = 0;     // Of one operation: the median over the rounds.
  int rounds = 0;
  long iterations = 0;  // Operations in a row, timed together, in each round.

  double gigabytesPerSecond() const { return static_cast<double>(bytes) / seconds / 1e9; }
};

// The middle value, or the mean of the two in the middle. `values` must not be empty.
double median(std::vector<double> values);

// A line for each measurement, in the given order, and how many times as fast as it each of
// Colla's measurements of the same point is. Ends with a newline.
std::string table(std::span<const Measurement> measurements);

// A list of objects with system, op, np, bytes, seconds, gb_per_s and some more.
std::string json(std::span<const Measurement> measurements);

}  // namespace colla::bench
