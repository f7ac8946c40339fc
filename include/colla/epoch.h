// One period of a job with a fixed set of workers: who they are, where they run, which slices each
// of them has, and the groups in which they work together.
//
// A job is in one epoch at a time (Job::epoch()). A training takes the epoch as a value for a
// segment of its run, and keeps nothing of it beyond that segment.
//
// A value: immutable, cheap to copy. A copy keeps its groups alive, so that no copy may outlive the
// Job. Thread safety: as that of a Group.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colla/group.h"
#include "colla/slices.h"
#include "colla/topology.h"

namespace colla {

namespace job {
class Epochs;
}

// The workers of the next epoch: see Job::replaceEpoch().
struct EpochPlan {
  // By their numbers in the job (Job::rank()), in the order of their ranks in the epoch.
  std::vector<int> workers;
  // The rank in the epoch that acts for all.
  int recorder = 0;

  friend bool operator==(const EpochPlan&, const EpochPlan&) = default;
};

class Epoch {
 public:
  // What rank() is in a process that is not one of the epoch's workers.
  static constexpr int kNoRank = -1;

  // Epochs of a job are numbered from 0.
  std::uint32_t number() const;

  // This process's rank among the epoch's workers; kNoRank in an idle worker and in a server.
  int rank() const;
  // This process is one of the epoch's workers.
  bool takesPart() const { return rank() != kNoRank; }
  int workers() const;
  int servers() const;
  // By rank: the worker's number in the job, as its launcher gave it (Job::rank()).
  std::span<const int> processes() const;

  // The slices of each rank. Their number is the same in every epoch.
  const SliceMap& slices() const;
  // This worker's slices. Empty in a process that does not take part.
  SliceRange mine() const;
  const Topology& topology() const;

  // All workers of the epoch. Only in a process that takes part.
  Group& world() const;
  // Those of them that are on this host, in the order of their ranks; world() itself where all are.
  Group& host() const;

  // The rank that acts for all: it writes logs and checkpoints.
  int recorder() const;
  bool records() const { return rank() == recorder(); }

 private:
  friend class job::Epochs;
  struct State;
  explicit Epoch(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace colla
