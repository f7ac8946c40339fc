// What came out of the hybrid benchmark, as a table for people and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "bench/hybrid_job.h"

namespace colla::bench {

struct HybridMeasurement {
  std::string system;
  int workers = 0;
  std::int64_t batch = 0;
  double stepSeconds = 0;  // The median over the rounds.
  // The largest numbers of any worker's host, and the server's, if it has a host of its own.
  std::optional<LinkLoad> worker;
  std::optional<LinkLoad> server;
  double linkBytesPerSecond = 0;  // What a link can carry, in each direction.
  int rounds = 0;
  std::int64_t steps = 0;  // Of a round, without those that only warm up.

  double samplesPerSecond() const { return static_cast<double>(batch) / stepSeconds; }
  // How much of the time the busiest direction of any link is full; nothing where it is not known.
  std::optional<double> busiestLink() const;
};

// Splits what one run saw on its links.
void setLoads(HybridMeasurement& measurement, std::span<const LinkLoad> loads);

// A line for each system, and how many times as fast as it hybrid is, with the server on a host of
// its own and on a worker's.
std::string hybridTable(std::span<const HybridMeasurement> measurements);

// A list of objects with system, workers, batch, step_seconds, samples_per_s and some more.
std::string hybridJson(std::span<const HybridMeasurement> measurements);

}  // namespace colla::bench
