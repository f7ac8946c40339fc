// The workers that exchange with each other: a group, the slices that each of them runs, and the job
// whose memory and servers they use.
//
// A value: a training that goes on with different workers gets a new one. Job and group must outlive
// it.
#pragma once

#include "colla/group.h"
#include "colla/job.h"
#include "colla/slices.h"

namespace colla::train {

struct Workers {
  Job& job;
  Group& group;
  SliceMap map;

  int rank() const { return group.rank(); }
  int size() const { return group.size(); }
  SliceRange slices() const { return map.range(group.rank()); }

  // Every worker of the job, with an even share of its slices. Throws colla::Error.
  static Workers all(Job& job);
};

}  // namespace colla::train
