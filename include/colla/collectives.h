// Collective operations: every rank of a Group calls the same one with fitting arguments, and
// each returns once its own part is final.
//
// Sums, averages and products are formed along the canonical tree (colla/slices.h): the bits of
// the result do not depend on transport, algorithm, message sizes or number of workers. Ranks
// that call different things all get kMismatch, with who called what. Where they share no memory,
// one that only sends (a broadcast's root, say) may have returned by then: its next call tells.
//
// After an error the contents of the result are unspecified, and a peer that has not heard of it
// yet may still write into a Bucket: do not use it again in this job.
//
// The asynchronous form of each is Group::async:
//   colla::Handle handle =
//       group.async([&](colla::Group& g) { return colla::allreduce(g, bucket.as<float>()); });
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "colla/buffer.h"
#include "colla/group.h"
#include "colla/slices.h"
#include "colla/status.h"

namespace colla {

// An average divides the sum once, at the root, by the number of slices (of ranks, where there
// are none); it is refused for integers. For kBool, sum and max are "or", product and min "and".
enum class ReduceOp : std::uint8_t { kSum, kAverage, kMin, kMax, kProduct };

// How an allreduce is done. All but kRing add in the canonical order; kRing is there to compare
// with, says so in the log, and is never chosen by itself.
enum class Algorithm : std::uint8_t {
  kAuto,
  kShared,
  kFlat,
  kDirect,
  kHalving,
  kTree,
  kRing,
  kLevels
};

std::string_view toString(ReduceOp op);
std::string_view toString(Algorithm algorithm);
Result<Algorithm> parseAlgorithm(std::string_view text);

struct CollectiveOptions {
  // Limit for the whole operation, not per message, and with the wait for asynchronous ones ahead
  // of it; zero: the job's `collective_timeout` setting.
  std::chrono::milliseconds timeout{0};
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  std::chrono::milliseconds timeout{0};
};

struct AllreduceOptions {
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kAuto;  // kAuto: the job's `algorithm` setting.
  std::chrono::milliseconds timeout{0};
};

// Returns once every rank has called it.
Status barrier(Group& group, const CollectiveOptions& options = {});

// `data` of `root` replaces everybody's.
Status broadcast(Group& group, Buffer data, int root, const CollectiveOptions& options = {});

// Reduces everybody's `data` in place.
Status allreduce(Group& group, Buffer data, const AllreduceOptions& options = {});

// Reduces what the slices of `map` brought: `partials` holds this rank's partial sums, one for
// each of map.subtrees(rank), and may include `result`'s own memory. 16-bit floats are taken only
// where each partial sum is of one slice: 16 bits can't hold the sum of several exactly enough.
Status allreduce(Group& group, const SliceMap& map, std::span<const ConstBuffer> partials,
                 Buffer result, const AllreduceOptions& options = {});

// Reduces everybody's `data` into `result` of `root`; the other ranks' `result` is not used.
Status reduce(Group& group, ConstBuffer data, Buffer result, int root,
              const ReduceOptions& options = {});

// `data` holds size() equal parts; this rank's `result` is the reduction of everybody's part
// number rank().
Status reduceScatter(Group& group, ConstBuffer data, Buffer result,
                     const ReduceOptions& options = {});

// `result` holds everybody's `data` in the order of ranks; all have the same count.
Status allgather(Group& group, ConstBuffer data, Buffer result,
                 const CollectiveOptions& options = {});
// Rank r brings counts[r] elements; `counts` is the same on every rank.
Status allgatherv(Group& group, ConstBuffer data, Buffer result,
                  std::span<const std::size_t> counts, const CollectiveOptions& options = {});

// Part p of `data` goes to rank p, and part p of `result` comes from it; all parts are equal.
Status alltoall(Group& group, ConstBuffer data, Buffer result,
                const CollectiveOptions& options = {});
// Parts of sendCounts[p] elements go out, parts of recvCounts[p] come in, each packed in the
// order of ranks.
Status alltoallv(Group& group, ConstBuffer data, std::span<const std::size_t> sendCounts,
                 Buffer result, std::span<const std::size_t> recvCounts,
                 const CollectiveOptions& options = {});

// `result` of `root` holds everybody's `data`; the other ranks' `result` is not used.
Status gather(Group& group, ConstBuffer data, Buffer result, int root,
              const CollectiveOptions& options = {});
// Part r of `data` of `root` arrives in rank r's `result`; the other ranks' `data` is not used.
Status scatter(Group& group, ConstBuffer data, Buffer result, int root,
               const CollectiveOptions& options = {});

// Messages between two ranks, in order for each (pair, tag); both sides must give the same size.
// They do not wait for collectives of the group, nor those for them. After kTimeout the same
// message can be sent, or received, by another call, unless the error says otherwise.
Status send(Group& group, ConstBuffer data, int to, std::uint32_t tag = 0,
            const CollectiveOptions& options = {});
Status recv(Group& group, Buffer data, int from, std::uint32_t tag = 0,
            const CollectiveOptions& options = {});

}  // namespace colla
