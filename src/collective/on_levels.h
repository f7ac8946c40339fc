// The collectives of a group on two levels (levels.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/group_core.h"
#include "collective/reduction.h"

namespace colla::collective {

// What is copied at a time from private buffers, and so the most that a rank's copies of a partial
// sum take.
inline constexpr std::size_t kLevelsBlockBytes = 16 << 20;
// What a rail sends at a time: it has memory for that many bytes of sums.
inline constexpr std::size_t kLevelsRailBytes = 16 << 20;

// An allreduce can go on two levels: a post has room for the places of everybody's partial sums.
bool fitsLevels(const SumTree& tree);

Status allreduceLevels(const Reduction& reduction);
// Several that fit the posts of one meeting (fitsPosts()), of one turn and tree.
Status allreduceLevelsSmall(std::span<const Reduction> reductions);
// Into `result` of `root`; the others' is not used.
Status reduceLevels(const Reduction& reduction, int root);
// `data` holds one part for each rank; the sum of this rank's goes to `out`.
Status reduceScatterLevels(GroupCore::Turn& turn, ConstBuffer data, Buffer out, ReduceOp op);

Status barrierLevels(GroupCore::Turn& turn);
Status broadcastLevels(GroupCore::Turn& turn, std::span<std::byte> data, int root);
// Rank r brings bytes [offsets[r], offsets[r + 1]) of `result`.
Status allgatherLevels(GroupCore::Turn& turn, std::span<const std::byte> data,
                       std::span<std::byte> result, std::span<const std::size_t> offsets);
// Part r of `data`, from sends[r] to sends[r + 1], goes to rank r; that of `result` comes from it.
Status alltoallLevels(GroupCore::Turn& turn, std::span<const std::byte> data,
                      std::span<const std::size_t> sends, std::span<std::byte> result,
                      std::span<const std::size_t> expects);
// The ranks of this host called the same: for collectives that go by messages alone.
Status meetLevels(GroupCore::Turn& turn);

}  // namespace colla::collective
