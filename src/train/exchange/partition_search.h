// Finds by measurement into how many parts to cut tables on servers: the rows of a first batch are
// pulled and pushed, for one number of parts after another, as training will do it.
//
// No bit depends on the cut. No torch.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "colla/status.h"
#include "train/exchange/workers.h"

namespace colla::train {

// A table, and the rows of it that this worker's batch needs: ascending, each once.
struct TrialTable {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> rows;
};

struct PartitionTrial {
  int partitions = 0;
  double seconds = 0;  // Of a step's pulls and pushes, by the slowest worker.
};

struct PartitionChoice {
  int partitions = 0;
  std::string reason;  // For people: what was measured.
};

// The number to try next after `trials`, 0 if enough is known: as many as servers, then twice as
// many again and again, until that is slower than the best, or tables have no more rows.
int nextPartitions(std::span<const PartitionTrial> trials, int servers, std::int64_t mostRows);
// The fewest that are within 5 % of the fastest.
PartitionChoice choosePartitions(std::span<const PartitionTrial> trials);

// Every worker calls it, before it declares anything to the servers; all get the same. The servers
// hold the tables, empty, while it lasts.
Result<PartitionChoice> searchPartitions(const Workers& workers,
                                         std::span<const TrialTable> tables);

}  // namespace colla::train
