// One rank's part of one named operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/data_type.h"
#include "colla/status.h"

namespace colla::named {

enum class Kind : std::uint8_t {
  kAllreduce,
  kAllgather,
  kBroadcast,
  kAlltoall,
  kReducescatter,
  kBarrier,
  // What NamedExchange::join(), addSet() and removeSet() ask for; not for submit().
  kJoin,
  kAddSet,
  kRemoveSet,
};

// An average of integers divides their sum by the number of members and drops the rest. kBool has
// neither averages nor factors; sum and max are "or" there, product and min "and". kAdasum is for
// floats, allreduce, and 2^k members.
enum class Op : std::uint8_t { kSum, kAverage, kMin, kMax, kProduct, kAdasum };

// "allreduce", "sum": as in messages.
std::string_view toString(Kind kind);
std::string_view toString(Op op);

struct Request {
  // Operations of one process set are matched by it. May be used again once done() was called.
  std::string name;
  Kind kind = Kind::kAllreduce;
  // The process set: 0 has all ranks, others come from NamedExchange::addSet().
  int set = 0;

  // What this rank brings; empty for a barrier. Every member brings the same type, and
  // - allreduce, broadcast, reducescatter: the same shape;
  // - allgather, alltoall: shapes that differ in the first dimension at most;
  // - allgather, alltoall, reducescatter: at least one dimension.
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape = {};

  // Allreduce and reducescatter. Elements are multiplied by `prescale` before and by `postscale`
  // after the reduction: 16-bit floats in float32, integers in float64, dropping the fraction.
  Op op = Op::kSum;
  double prescale = 1;
  double postscale = 1;
  // Broadcast: whose tensor, by its rank in the job. Must be a member.
  int root = 0;
  // Alltoall: how many rows go to each member, at most shape[0] in all; empty: equal parts.
  std::vector<std::int64_t> splits = {};

  // Contiguous elements of `shape`, in place and unchanged until done(). Of a broadcast, the
  // root's alone is read.
  std::span<const std::byte> input = {};
  // Gives the memory of the result once its shape is known, which is when every member has come:
  //   allreduce, broadcast: shape; allgather: rows of all members, in the order of the set;
  //   alltoall: rows that came, in the order of senders; reducescatter: this rank's rows, of which
  //   the first shape[0] % members have one more than the rest.
  // May be input's own memory for allreduce and broadcast, and must not overlap it otherwise. An
  // error becomes this rank's outcome; the others are not concerned. Not called for a barrier, nor
  // when the operation fails before.
  std::function<Result<std::span<std::byte>>(std::span<const std::int64_t> shape)> output = {};
  // Called once for each request that was taken, however it ends. `receivedSplits`: of an
  // alltoall, the rows that came from each member.
  //
  // Both functions run on the exchange's thread, under no lock, and are destroyed on it right after
  // `done`. They may submit more, but must neither wait for an operation nor destroy the exchange.
  std::function<void(const Status& status, std::span<const std::int64_t> receivedSplits)> done = {};
};

}  // namespace colla::named
