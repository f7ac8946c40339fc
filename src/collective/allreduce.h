// Several allreduces at once.
#pragma once

#include <span>

#include "colla/collectives.h"
#include "colla/slices.h"

namespace colla::collective {

// One of several sums, each of a type of its own.
struct SumPart {
  std::span<const ConstBuffer> partials;
  Buffer result;
};

// The same results as allreduce(group, map, …) of one part after the other. Where the ranks share
// memory, small parts travel in the posts of the first large one, so that all of them together cost
// its meetings alone.
Status allreduceTogether(Group& group, const SliceMap& map, std::span<const SumPart> parts,
                         const AllreduceOptions& options = {});

}  // namespace colla::collective
