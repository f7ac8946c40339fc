// Carries out decided operations on a group, with the memory of the requests.
//
// Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "colla/bucket.h"
#include "colla/group.h"
#include "colla/job.h"
#include "colla/status.h"
#include "named/announcement.h"

namespace colla::named {

// One operation on this rank.
struct Work {
  const Decision* decision;
  Request* request;  // Null: this rank has joined, and brings zeros.
  // What came of it.
  Status outcome = {};
  std::vector<std::int64_t> received = {};
};

class Executor {
 public:
  explicit Executor(Job& job) : job_(job) {}

  // A batch, on the group of its set. A bad status is everybody's: the group is broken. What
  // concerns this rank alone is in the outcomes.
  Status run(Group& group, std::span<Work> batch);

 private:
  Status allreduceFused(Group& group, std::span<Work> batch);
  Status allreduceAlone(Group& group, Work& work);
  Status adasum(Group& group, Work& work);
  Status allgather(Group& group, Work& work);
  Status broadcast(Group& group, Work& work);
  Status alltoall(Group& group, Work& work);
  Status reducescatter(Group& group, Work& work);

  // Where the result goes: the request's memory or, where it has none, some that is thrown away,
  // because the others need this rank all the same.
  Result<std::span<std::byte>> target(Work& work, std::span<const std::int64_t> shape);
  // Memory of this size that holds anything.
  static Result<std::span<std::byte>> reserve(Job& job, Bucket& bucket, std::size_t bytes);

  Job& job_;
  Bucket fused_;  // Also what reductions work in.
  Bucket spare_;  // For results that have no other place.
};

}  // namespace colla::named
