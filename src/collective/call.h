// What a rank called, in the 16 bytes that transports carry and compare, and in words.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "colla/collectives.h"
#include "transport/transport.h"

namespace colla::collective {

enum class Operation : std::uint8_t {
  kRefused,  // The rank's own arguments did not fit: it does not take part.
  kBarrier,
  kBroadcast,
  kAllreduce,
  kReduce,
  kReduceScatter,
  kAllgather,
  kAllgatherv,
  kAlltoall,
  kAlltoallv,
  kGather,
  kScatter,
  kSubgroup,
  kMessage,
};

struct CallArguments {
  Operation operation = Operation::kRefused;
  DataType type = DataType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kAuto;
  int root = 0;              // Of operations that have one;
  std::uint32_t layout = 0;  // of others, a hash of what else must be equal: counts, slices.
  std::uint64_t count = 0;   // Elements that each rank brings (or, where that differs, in all).
};

transport::Call encode(const CallArguments& arguments);

inline constexpr std::size_t kOperationCount = static_cast<std::size_t>(Operation::kMessage) + 1;
// "allreduce"; the name of the function that was called.
std::string_view toString(Operation operation);

// "allreduce of 1024 float32, sum" or "broadcast of 7 int64 from rank 2": all that ranks must agree
// in, for messages that compare calls.
std::string describe(const transport::Call& call);
// The error of a call that a lost peer or the machine has broken: "allreduce of 89,654 float32:
// rank 1 on host b is gone".
Status brokenIn(const transport::Call& call, const Status& status);
// The error of a rank that waited in vain: "rank 1 on host b did not answer for 5 s in allreduce of
// 89,654 float32". `first` is the transport number of the first that is named.
Status didNotAnswer(std::span<const std::string> names, int first,
                    std::chrono::duration<double> waited, const transport::Call& call);

}  // namespace colla::collective
