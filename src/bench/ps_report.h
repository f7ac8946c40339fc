// What came out of `colla bench ps`.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "bench/train_report.h"

namespace colla::bench {

// A training, with what its server takes.
struct PsMeasurement {
  TrainMeasurement training;       // Of the workers: "mxnet", "tf", "colla-2", "colla-ps-sync", ...
  std::size_t serverPssBytes = 0;  // 0: it has none.
};

// Bytes through one server, or through memory alone ("memory-1": one core, "memory": all).
struct PushMeasurement {
  std::string system;
  int workers = 0;
  std::size_t bytes = 0;      // Of a worker's gradients; of each array in memory.
  double stepSeconds = 0;     // Of all workers: the median over the rounds.
  double bytesPerSecond = 0;  // Read and written: gradients and parameters; three arrays.
  int rounds = 0;
  long steps = 1;  // In a row, timed together, in each round.
};

// A line for each training, and how many times as fast as it Colla with a server is; then a line
// for each push, and which part of the memory's speed it reaches. Either may be empty.
std::string psTable(std::span<const PsMeasurement> trainings,
                    std::span<const PushMeasurement> pushes);

// A list of objects, trainings first: "part" is "train" or "push".
std::string psJson(std::span<const PsMeasurement> trainings,
                   std::span<const PushMeasurement> pushes);

}  // namespace colla::bench
