// Measures systems against each other: every round asks each of them in turn, so that what slows
// the machine down for a while slows all of them.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "bench/report.h"
#include "bench/systems.h"
#include "colla/status.h"

namespace colla::bench {

struct RunnerOptions {
  int np = 2;
  int rounds = 7;
  // What one measurement should take; decides how many operations are timed together.
  double seconds = 0.15;
  // No new round of a point is begun after this, so that the whole run is bounded.
  std::chrono::seconds pointLimit{30};
  // Told before each measurement; may be empty.
  std::function<void(const std::string& line)> progress;
};

// How many iterations to measure next, when `iterations` took `elapsed` seconds and a measurement
// should take `target`: grows by at most 32 times, because first ones are slow.
long nextIterations(long iterations, double elapsed, double target);

// All of `systems` (already started) that can do each point, in order. The time of an operation is
// that of the slowest rank: the largest over the ranks, divided by the iterations.
Result<std::vector<Measurement>> measureAll(Coordinator& coordinator,
                                            const std::vector<SystemInfo>& systems,
                                            const std::vector<Point>& points,
                                            const RunnerOptions& options);

}  // namespace colla::bench
