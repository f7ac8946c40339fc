// Collectives over shared memory: every rank sees the others' buffers where they lie, or, where
// they are private, through a small staging area.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include "collective/group_core.h"
#include "collective/reduction.h"

namespace colla::collective {

Status allreduceShared(const Reduction& reduction);

// Several reductions of one turn, in its meetings alone: those of `small` travel in the posts, for
// which fitsPosts() must hold; `large`, if not null, goes its own way.
bool fitsPosts(const SumTree& tree, std::span<const std::size_t> bytes);
Status allreduceShared(std::span<const Reduction> small, const Reduction* large);

// A chunk in the staged way, when a rank brings up to `mostLeaves` partial sums: half a staging
// area holds one for every leaf and rank, and one of results. Of 32 to 320 KiB, 128 to 256 were the
// best at 4 MiB on the machine it was tried on; runs differ by more than those do among each other.
inline constexpr std::size_t kLargestChunk = 192 << 10;
constexpr std::size_t stagedChunkBytes(std::size_t mostLeaves, std::size_t ranks) {
  const std::size_t most = Board::kStagingBytes / 2 / (mostLeaves * ranks + 1) / kLine * kLine;
  return std::min(most, kLargestChunk);
}

// Reads every rank's `source` on every rank, a window at a time.
//
// consume(begin, end, at): bytes [begin, end) are in sight; at[r] points to byte `begin` of rank
// r's source, of which lengthOf(r) bytes exist. lengthOf is called once everybody has arrived; a
// rank may show nothing. `largest` is a length that no source exceeds, the same on every rank,
// or ~0 when a rank can't know.
//
// agree(), if given, is called once everybody has arrived; an error ends it, which all ranks must
// find alike.
using Consume =
    std::function<void(std::size_t begin, std::size_t end, std::span<const std::byte* const> at)>;
Status readSources(GroupCore::Turn& turn, std::span<const std::byte> source, std::size_t largest,
                   const std::function<std::size_t(int rank)>& lengthOf, const Consume& consume,
                   const std::function<Status()>& agree = nullptr);

// Whether every rank expects what the others send it. All see all lists, so that all find the same.
Status comparePosted(GroupCore::Turn& turn);

}  // namespace colla::collective
