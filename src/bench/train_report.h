// What came out of `colla bench train`: one TrainMeasurement for each model, batch and system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "bench/train_model.h"

namespace colla::bench {

struct TrainMeasurement {
  std::string system;  // "torch", "ddp", "colla-1", "colla-2", "colla-2x1".
  std::string model;
  BatchSize batch;
  int workers = 0;
  double stepSeconds = 0;    // Of all workers' samples: the median over the rounds.
  double loss = 0;           // By which the systems were checked against each other.
  std::size_t pssBytes = 0;  // Of the worker that had most, at its highest.
  // How much longer a step takes because the workers exchange anything, where it was measured.
  std::optional<double> exposedSeconds;
  int rounds = 0;
  long steps = 0;  // In a row, timed together, in each round.

  double samplesPerSecond() const {
    return static_cast<double>(batch.ofAll(workers)) / stepSeconds;
  }
};

// What one thread reads of a model's data where it lies in files and has to be made ready.
struct ReaderMeasurement {
  std::string model;
  double samplesPerSecond = 0;
};

// A line for each measurement, in the given order, and how many times as fast as it colla-1 and
// colla-2 are at the same point: the ratio of their samples per second. The readers' come last.
// Ends with a newline.
std::string trainTable(std::span<const TrainMeasurement> measurements,
                       std::span<const ReaderMeasurement> readers = {});

// A list of objects with system, model, batch (of all workers), workers, samples_per_s,
// step_seconds, pss_bytes, batch_per_worker where that was given, exposed_seconds where it is
// known, and some more; those of readers have system "reader", model and samples_per_s alone.
std::string trainJson(std::span<const TrainMeasurement> measurements,
                      std::span<const ReaderMeasurement> readers = {});

}  // namespace colla::bench
