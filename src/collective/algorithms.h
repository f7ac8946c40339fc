// Collectives made of messages: one source file per algorithm, each opening with what it does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "collective/reduction.h"

namespace colla::collective {

// Up to this many bytes latency counts: flat, or tree among many ranks.
inline constexpr std::size_t kSmallBytes = 32 << 10;

// All but the last add in the canonical order.
Status allreduceFlat(const Reduction& reduction);
Status allreduceDirect(const Reduction& reduction);
Status allreduceHalving(const Reduction& reduction);  // Only where tree.complete().
Status allreduceTree(const Reduction& reduction);
Status allreduceRing(const Reduction& reduction);

// The first half of the direct allreduce, for those that want only chunks: folds this rank's
// range and hands it out piece by piece. ranges[r] is what rank r folds; `out` has room for this
// rank's; ready(piece) is called with each folded piece (bytes of the whole buffer).
Status reduceDirect(GroupCore::Turn& turn, const SumTree& tree,
                    std::span<const ConstBuffer> partials, ReduceOp op,
                    std::span<const Range> ranges, std::byte* out,
                    const std::function<void(Range piece)>& ready);

// Folds into `result` of `root`; the others' is not used.
Status reduceTree(const Reduction& reduction, int root);
Status reduceByMessages(const Reduction& reduction, int root);

// Halving and the tree send sums of several leaves, and those of 16-bit floats need 32 bits until
// the root rounds them. Other algorithms send leaves and results alone.
bool canSendSums(DataType type);
// The one for so many ranks and bytes, if no other is named.
Algorithm chooseByMessages(int ranks, const SumTree& tree, DataType type, std::size_t bytes);
// With that, or with `algorithm`.
Status allreduceByMessages(const Reduction& reduction);
Status allreduceByMessages(const Reduction& reduction, Algorithm algorithm);

Status broadcastMessages(GroupCore::Turn& turn, std::span<std::byte> data, int root,
                         std::uint32_t firstStep = 0);
Status barrierMessages(GroupCore::Turn& turn, std::uint32_t firstStep = 0);

// Every rank's parts: outgoing[r] goes to rank r, and incoming[r] comes from it; a part at a null
// address is no message, an empty one elsewhere (see present()) is an empty message. The rank's own
// is copied.
inline std::byte emptyPart;
template <typename T>
std::span<T> present(std::span<T> part) {
  return part.empty() ? std::span<T>(&emptyPart, 0) : part;
}
Status exchangeMessages(GroupCore::Turn& turn, std::span<const std::span<const std::byte>> outgoing,
                        std::span<const std::span<std::byte>> incoming);
// Every rank brings `part` bytes, which already stand at their place in `all`.
Status allgatherMessages(GroupCore::Turn& turn, std::span<std::byte> all, std::size_t part);
// Everybody with everybody, however many they are.
Status allgatherDirect(GroupCore::Turn& turn, std::span<std::byte> all, std::size_t part);

}  // namespace colla::collective
