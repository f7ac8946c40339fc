#include "collective/call.h"

#include <fmt/format.h>

#include <array>

#include "base/readable.h"

namespace colla {

std::string_view toString(ReduceOp op) {
  constexpr std::array<std::string_view, 5> kNames = {"sum", "average", "min", "max", "product"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "unknown reduction";
}

namespace {
constexpr std::array<std::string_view, 8> kAlgorithms = {"auto",    "shared", "flat", "direct",
                                                         "halving", "tree",   "ring", "levels"};
}

std::string_view toString(Algorithm algorithm) {
  const auto index = static_cast<std::size_t>(algorithm);
  return index < kAlgorithms.size() ? kAlgorithms[index] : "unknown algorithm";
}

Result<Algorithm> parseAlgorithm(std::string_view text) {
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
    if (kAlgorithms[i] == text) return static_cast<Algorithm>(i);
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("algorithm \"{}\" is not one of {}", text, fmt::join(kAlgorithms, ", "))};
}

namespace collective {
namespace {

constexpr std::array<std::string_view, kOperationCount> kOperations = {
    "nothing (its arguments were refused)",
    "barrier",
    "broadcast",
    "allreduce",
    "reduce",
    "reduceScatter",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "gather",
    "scatter",
    "subgroup",
    "send or recv",
};

bool reduces(Operation operation) {
  return operation == Operation::kAllreduce || operation == Operation::kReduce ||
         operation == Operation::kReduceScatter;
}

bool rooted(Operation operation) {
  return operation == Operation::kBroadcast || operation == Operation::kReduce ||
         operation == Operation::kGather || operation == Operation::kScatter;
}

}  // namespace

transport::Call encode(const CallArguments& arguments) {
  return {.operation = static_cast<std::uint8_t>(arguments.operation),
          .type = static_cast<std::uint8_t>(arguments.type),
          .reduction = static_cast<std::uint8_t>(arguments.op),
          .detail = static_cast<std::uint8_t>(arguments.algorithm),
          .root = static_cast<std::uint32_t>(arguments.root) | arguments.layout,
          .count = arguments.count};
}

std::string_view toString(Operation operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}

std::string describe(const transport::Call& call) {
  const auto operation = static_cast<Operation>(call.operation);
  if (call.operation >= kOperations.size()) return "an unknown operation";
  std::string text(kOperations[call.operation]);
  if (operation == Operation::kRefused || operation == Operation::kBarrier) return text;
  text += " of ";
  // Each pair of ranks has a count of its own.
  if (operation != Operation::kAlltoallv) text += fmt::format("{} ", call.count);
  text += toString(static_cast<DataType>(call.type));
  if (reduces(operation)) {
    text += fmt::format(", {}", toString(static_cast<ReduceOp>(call.reduction)));
  }
  if (rooted(operation)) {
    text += fmt::format(", root {}", call.root);
  } else if (call.root != 0) {
    text += fmt::format(", slices or counts #{:08x}", call.root);
  }
  if (call.detail != 0) {
    text += fmt::format(", algorithm {}", toString(static_cast<Algorithm>(call.detail)));
  }
  return text;
}

namespace {

// "allreduce of 89,654 float32": what a user knows of a call.
std::string inWords(const transport::Call& call) {
  if (call.operation >= kOperations.size()) return "an unknown operation";
  const auto operation = static_cast<Operation>(call.operation);
  const std::string what(toString(operation));
  const std::string_view type = toString(static_cast<DataType>(call.type));
  if (operation == Operation::kSubgroup) {
    return fmt::format("the forming of a group of {}", call.count);
  }
  if (operation == Operation::kRefused || operation == Operation::kBarrier) return what;
  if (operation == Operation::kAlltoallv) return fmt::format("{} of {}", what, type);
  return fmt::format("{} of {} {}", what, grouped(call.count), type);
}

}  // namespace

Status brokenIn(const transport::Call& call, const Status& status) {
  return status.withContext(inWords(call));
}

Status didNotAnswer(std::span<const std::string> names, int first,
                    std::chrono::duration<double> waited, const transport::Call& call) {
  return {StatusCode::kTimeout,
          fmt::format("{} did not answer for {} in {}", fmt::join(names, ", "), inSeconds(waited),
                      inWords(call)),
          first};
}

}  // namespace collective
}  // namespace colla
