// Which tensors share which bucket.
//
// A bucket holds its members one after another, each from a 64-byte boundary, and behind them one
// flag per member: how many slices had a value for it. Pure functions; no torch.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "colla/data_type.h"

namespace colla::train {

// A tensor that is summed over slices.
struct Extent {
  DataType type = DataType::kFloat32;
  std::size_t count = 0;
};

struct BucketPlan {
  struct Member {
    int entry;           // Number of the tensor.
    std::size_t offset;  // In elements.
  };
  DataType type = DataType::kFloat32;
  std::vector<Member> members;
  std::size_t flags = 0;  // Where they start, in elements.
  std::size_t count = 0;  // Elements in all, flags included.
};

struct BucketPlans {
  std::vector<BucketPlan> buckets;
  // How many of the last ones were never filled up: at most one of each type, and at least one.
  // They are ready when everything is, and travel together.
  std::size_t tail = 0;
};

// Fills buckets of about `bytes` with the tensors in `order` (a permutation of their numbers): the
// order in which they become ready, so that early buckets can leave early. A tensor is never cut.
BucketPlans planBuckets(std::span<const Extent> entries, std::span<const int> order,
                        std::size_t bytes);

}  // namespace colla::train
