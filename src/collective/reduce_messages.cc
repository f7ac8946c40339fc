// Which algorithm a reduction by messages takes, and the way to a single root.
#include <memory>
#include <vector>

#include "collective/algorithms.h"
#include "collective/fold.h"
#include "collective/messages.h"

namespace colla::collective {

bool canSendSums(DataType type) { return Folder::sumType(type) == type; }

Algorithm chooseByMessages(int ranks, const SumTree& tree, DataType type, std::size_t bytes) {
  const bool many = ranks > kFewRanks && canSendSums(type);
  if (bytes <= kSmallBytes) return many ? Algorithm::kTree : Algorithm::kFlat;
  return many && tree.complete() ? Algorithm::kHalving : Algorithm::kDirect;
}

Status allreduceByMessages(const Reduction& reduction, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kFlat:
      return allreduceFlat(reduction);
    case Algorithm::kHalving:
      return allreduceHalving(reduction);
    case Algorithm::kTree:
      return allreduceTree(reduction);
    case Algorithm::kRing:
      return allreduceRing(reduction);
    case Algorithm::kAuto:
    case Algorithm::kShared:
    case Algorithm::kDirect:
    case Algorithm::kLevels:
      break;
  }
  return allreduceDirect(reduction);
}

Status allreduceByMessages(const Reduction& reduction) {
  const ConstBuffer partial = reduction.partials[0];
  return allreduceByMessages(reduction, chooseByMessages(reduction.turn.size(), reduction.tree,
                                                         partial.type(), partial.bytes().size()));
}

// Small ones of many ranks along the tree; others the direct way, with the folded chunks going to
// the root alone.
Status reduceByMessages(const Reduction& reduction, int root) {
  GroupCore::Turn& turn = reduction.turn;
  const ConstBuffer partial = reduction.partials[0];
  const std::size_t bytes = partial.bytes().size();
  if (chooseByMessages(turn.size(), reduction.tree, partial.type(), bytes) == Algorithm::kTree) {
    return reduceTree(reduction, root);
  }
  const std::vector<Range> ranges = chunksOf(bytes, turn.size());
  const Range own = ranges[turn.rank()];
  const auto chunk = std::make_unique_for_overwrite<std::byte[]>(own.size());
  COLLA_TRY(reduceDirect(turn, reduction.tree, reduction.partials, reduction.op, ranges,
                         chunk.get(), [](Range) {}));
  Messages messages(turn);
  constexpr std::uint32_t kChunkStep = 1U << 31;
  if (turn.rank() == root) {
    for (int rank = 0; rank < turn.size(); ++rank) {
      if (rank != root) messages.recv(rank, kChunkStep, bytesOf(reduction.result, ranges[rank]));
    }
    std::copy_n(chunk.get(), own.size(), reduction.result.data() + own.begin);
  } else {
    messages.send(root, kChunkStep, {chunk.get(), own.size()});
  }
  return messages.wait();
}

}  // namespace colla::collective
