// Allreduces along a tree that the caller has prepared, one at a time or several at once.
//
// For callers that make the same exchange in every step: they build the tree once.
#pragma once

#include <span>

#include "colla/collectives.h"
#include "collective/sum_tree.h"

namespace colla::collective {

// As allreduce(group, map, …), with SumTree::of(map).
Status allreduceAlong(Group& group, const SumTree& tree, std::span<const ConstBuffer> partials,
                      Buffer result, const AllreduceOptions& options = {});

// One of several sums, each of a type of its own.
struct SumPart {
  std::span<const ConstBuffer> partials;
  Buffer result;
};

// The same results as allreduceAlong() of one part after the other. Where the ranks share memory,
// small parts travel in the posts of the first large one, so that all of them cost its meetings
// alone. At most kMostParts.
inline constexpr std::size_t kMostParts = 8;
Status allreduceTogether(Group& group, const SumTree& tree, std::span<const SumPart> parts,
                         const AllreduceOptions& options = {});

}  // namespace colla::collective
