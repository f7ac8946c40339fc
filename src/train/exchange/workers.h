// The workers that exchange with each other: a group, the slices that each of them runs, and the
// job whose memory and servers they use.
//
// A value, made from an epoch of the job: a training that goes on with different workers gets a new
// one. The groups live as long as the epoch, which must outlive it.
#pragma once

#include "colla/epoch.h"
#include "colla/group.h"
#include "colla/job.h"
#include "colla/slices.h"

namespace colla::train {

struct Workers {
  Job& job;
  Group& group;
  SliceMap map;
  // Those of them on this host, who share memory with each other; null: nobody does.
  Group* host = nullptr;
  // The rank that records, saves and speaks for all.
  int recorder = 0;

  int rank() const { return group.rank(); }
  int size() const { return group.size(); }
  SliceRange slices() const { return map.range(group.rank()); }
  bool records() const { return rank() == recorder; }

  static Workers of(Job& job, const Epoch& epoch);
  // Those of the job's present epoch.
  static Workers all(Job& job) { return of(job, job.epoch()); }
};

}  // namespace colla::train
