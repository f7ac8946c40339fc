// What is measured: one collective operation on float32 buffers, and the values by which every
// system's result is checked. The agents of the peers (peers/) follow the same rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::bench {

enum class Operation : std::uint8_t {
  kAllreduce,
  kBroadcast,
  kReduce,
  kReduceScatter,
  kAllgather,
  kAlltoall,
  kBarrier,
};

std::string_view toString(Operation operation);
Result<Operation> parseOperation(std::string_view text);

// One point of the benchmark. `elements` counts the floats of the whole buffer: what a rank holds
// for allreduce, broadcast, reduce and alltoall, what goes in for reduce_scatter, what comes out
// for allgather.
struct Point {
  Operation operation = Operation::kAllreduce;
  std::size_t elements = 0;

  std::size_t bytes() const { return elements * sizeof(float); }
  // Floats that one rank of `np` brings, and that it gets.
  std::size_t inputs(int np) const;
  std::size_t outputs(int np) const;
  // The result replaces the input.
  bool inPlace() const {
    return operation == Operation::kAllreduce || operation == Operation::kBroadcast;
  }
};

// The point closest to `bytes` from below that `np` ranks can do: operations that cut the buffer
// into one part for each rank need equal parts. A barrier has no bytes.
Point makePoint(Operation operation, std::size_t bytes, int np);

// What rank `rank` brings as element `index`. Whole numbers, small enough for exact sums.
inline float inputValue(int rank, std::size_t index) {
  return static_cast<float>(static_cast<int>(index % 1021) + 1000 * rank);
}
// What rank `rank` must get as element `index`.
float outputValue(const Point& point, int rank, int np, std::size_t index);

// An error that names the first wrong element of what `rank` got.
Status checkOutput(const Point& point, int rank, int np, std::span<const float> output);

}  // namespace colla::bench
