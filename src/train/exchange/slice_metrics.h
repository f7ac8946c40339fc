// Sums a few numbers over the slices of all workers, in float64 along the canonical tree: loss,
// metrics, samples. The same bits on every worker, for any number of them.
//
// Not thread safe; one per worker.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "colla/slices.h"
#include "collective/partial_sums.h"
#include "train/exchange/workers.h"

namespace colla::train {

class SliceMetrics {
 public:
  // `count` numbers for each of this worker's slices.
  SliceMetrics(const Workers& workers, std::size_t count);
  // For one worker that runs all `slices` by itself.
  SliceMetrics(int slices, std::size_t count);

  // Slices in ascending order, each once, then reduce().
  void add(int slice, std::span<const double> values);
  Result<std::span<const double>> reduce();

 private:
  SliceMetrics(Group* group, SliceMap map, int rank, std::size_t count);

  Group* const group_;  // Null: this worker alone has all slices.
  const SliceMap map_;
  const std::size_t count_;
  const collective::PartialSums sums_;
  std::vector<double> memory_;
  std::vector<std::byte*> buffers_;
};

}  // namespace colla::train
