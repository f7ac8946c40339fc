#include "train/exchange/workers.h"

#include "colla/error.h"

namespace colla::train {

Workers Workers::all(Job& job) {
  return {job, job.world(), valueOrThrow(SliceMap::even(job.slices(), job.size()))};
}

}  // namespace colla::train
