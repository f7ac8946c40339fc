// A job's workers, as Python's optimizers have them.
#pragma once

#include "colla/error.h"
#include "train/exchange/workers.h"

namespace colla::python_torch {

// Each rank is one slice, as in Horovod's API, however many slices the job has.
inline train::Workers workersOf(Job& job) {
  train::Workers workers = train::Workers::all(job);
  workers.map = valueOrThrow(SliceMap::even(workers.size(), workers.size()));
  return workers;
}

}  // namespace colla::python_torch
