#include "bench/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace colla::bench {
namespace {

using enum Operation;

constexpr std::array<std::string_view, 7> kNames = {
    "allreduce", "broadcast", "reduce", "reduce_scatter", "allgather", "alltoall", "barrier"};

float sumOfInputs(int np, std::size_t index) {
  float sum = 0;
  for (int rank = 0; rank < np; ++rank) sum += inputValue(rank, index);
  return sum;
}

}  // namespace

std::string_view toString(Operation operation) {
  return kNames[static_cast<std::size_t>(operation)];
}

Result<Operation> parseOperation(std::string_view text) {
  const auto it = std::ranges::find(kNames, text);
  if (it == kNames.end()) {
    return {StatusCode::kInvalidArgument, fmt::format("there is no operation \"{}\"; there are {}",
                                                      text, fmt::join(kNames, ", "))};
  }
  return static_cast<Operation>(it - kNames.begin());
}

std::size_t Point::inputs(int np) const {
  return operation == kAllgather ? elements / np : elements;
}

std::size_t Point::outputs(int np) const {
  return operation == kReduceScatter ? elements / np : elements;
}

Point makePoint(Operation operation, std::size_t bytes, int np) {
  if (operation == kBarrier) return {operation, 0};
  const std::size_t elements = std::max<std::size_t>(bytes / sizeof(float), 1);
  if (operation == kAllreduce || operation == kBroadcast || operation == kReduce) {
    return {operation, elements};
  }
  return {operation, std::max<std::size_t>(elements / np, 1) * np};
}

float outputValue(const Point& point, int rank, int np, std::size_t index) {
  const std::size_t part = point.elements / np;
  switch (point.operation) {
    case kAllreduce:
    case kReduce:
      return sumOfInputs(np, index);
    case kBroadcast:
      return inputValue(0, index);
    case kReduceScatter:
      return sumOfInputs(np, rank * part + index);
    case kAllgather:
      return inputValue(static_cast<int>(index / part), index % part);
    case kAlltoall:
      return inputValue(static_cast<int>(index / part), rank * part + index % part);
    case kBarrier:
      break;
  }
  return 0;
}

Status checkOutput(const Point& point, int rank, int np, std::span<const float> output) {
  if (point.operation == kReduce && rank != 0) return {};  // Only the root gets a result.
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float wanted = outputValue(point, rank, np, i);
    if (output[i] != wanted) {
      return {StatusCode::kInternal, fmt::format("wrong result: element {} of {} is {}, not {}", i,
                                                 output.size(), output[i], wanted)};
    }
  }
  return {};
}

}  // namespace colla::bench
