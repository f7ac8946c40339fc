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
  if (many && bytes <= kSmallBytes) return Algorithm::kTree;
  // It sends all of it to everybody.
  if (bytes * static_cast<std::size_t>(ranks - 1) <= kSmallBytes) return Algorithm::kFlat;
  return many && tree.complete() ? Algorithm::kHalving : Algorithm::kDirect;
}

namespace {

// For the algorithms that leave sums of the wider type everywhere.
Status allreduceThenRound(const Reduction& reduction, Algorithm algorithm) {
  const Buffer result = reduction.result;
  std::vector<float> sums(result.count());
  const Buffer wide(sums.data(), sums.size(), DataType::kFloat32);
  COLLA_TRY(allreduceByMessages(
      {reduction.turn, reduction.tree, reduction.partials, wide, reduction.op}, algorithm));
  wideningFor(result.type())->round(result.data(), sums.data(), sums.size());
  return {};
}

}  // namespace

Status allreduceByMessages(const Reduction& reduction, Algorithm algorithm) {
  const bool direct = algorithm == Algorithm::kDirect;
  if (reduction.rounds() && !direct) return allreduceThenRound(reduction, algorithm);
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
  const auto round = [&](Buffer to, const std::byte* sums) {
    wideningFor(to.type())->round(to.data(), reinterpret_cast<const float*>(sums), to.count());
  };
  if (chooseByMessages(turn.size(), reduction.tree, partial.type(), bytes) == Algorithm::kTree) {
    if (!reduction.rounds()) return reduceTree(reduction, root);
    std::vector<float> sums(partial.count());
    const Buffer wide(sums.data(), sums.size(), DataType::kFloat32);
    COLLA_TRY(reduceTree({turn, reduction.tree, reduction.partials, wide, reduction.op}, root));
    if (turn.rank() == root) round(reduction.result, wide.data());
    return {};
  }
  const std::vector<Range> ranges = chunksOf(bytes, turn.size());
  const Range own = ranges[turn.rank()];
  const auto chunk = std::make_unique_for_overwrite<std::byte[]>(own.size());
  COLLA_TRY(reduceDirect(turn, reduction.tree, reduction.partials, reduction.op, ranges,
                         chunk.get(), [](Range) {}));
  const DataType type = reduction.result.type();
  const std::size_t wider = sizeOf(reduction.sumType()) / sizeOf(type);
  const std::size_t size = own.size() / wider;
  std::vector<std::byte> rounded(reduction.rounds() ? size : 0);
  if (reduction.rounds()) {
    round(Buffer(rounded.data(), size / sizeOf(type), type), chunk.get());
  }
  const std::byte* const mine = reduction.rounds() ? rounded.data() : chunk.get();
  Messages messages(turn);
  constexpr std::uint32_t kChunkStep = 1U << 31;
  if (turn.rank() == root) {
    for (int rank = 0; rank < turn.size(); ++rank) {
      const Range range{ranges[rank].begin / wider, ranges[rank].end / wider};
      if (rank != root) messages.recv(rank, kChunkStep, bytesOf(reduction.result, range));
    }
    std::copy_n(mine, size, reduction.result.data() + own.begin / wider);
  } else {
    messages.send(root, kChunkStep, {mine, size});
  }
  return messages.wait();
}

}  // namespace colla::collective
