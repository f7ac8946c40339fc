// Reductions whose partial sums travel in the posts of one meeting, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/kernels.h"
#include "collective/reduction.h"

namespace colla::collective {

// In a post every part starts on a cache line.
inline std::size_t roomFor(std::size_t leaves, std::size_t bytes) {
  return (leaves * bytes + kLine - 1) / kLine * kLine;
}

class PostedReductions {
 public:
  // All of one turn and one tree.
  explicit PostedReductions(std::span<const Reduction> reductions) : reductions_(reductions) {}

  // Before the meeting, into this rank's post.
  void put(std::span<std::byte> post) const {
    std::size_t at = 0;
    for (const Reduction& reduction : reductions_) {
      const std::size_t bytes = reduction.result.bytes().size();
      for (std::size_t i = 0; i < reduction.partials.size(); ++i) {
        copyBytes(post.data() + at + i * bytes, reduction.partials[i].data(), bytes);
      }
      at += roomOf(reduction);
    }
  }

  // After it: fold(reduction, leaves) for each. leaves[i] is leaf i of the tree, of those ranks
  // that are on the board; rankOf(r) is rank r of the board in the tree.
  template <typename RankOf, typename Fold>
  void forEach(Board& board, std::uint64_t sequence, const RankOf& rankOf, const Fold& fold) const {
    std::size_t at = 0;
    std::vector<const std::byte*> leaves;
    for (const Reduction& reduction : reductions_) {
      const SumTree& tree = reduction.tree;
      const std::size_t bytes = reduction.result.bytes().size();
      leaves.resize(static_cast<std::size_t>(tree.leaves()));
      for (int rank = 0; rank < board.size(); ++rank) {
        const std::byte* const theirs = board.small(rank, sequence).data() + at;
        for (int i = 0; i < tree.leavesOf(rankOf(rank)); ++i) {
          leaves[tree.firstLeaf(rankOf(rank)) + i] = theirs + i * bytes;
        }
      }
      fold(reduction, std::span<const std::byte* const>(leaves));
      at += roomOf(reduction);
    }
  }

 private:
  static std::size_t roomOf(const Reduction& reduction) {
    return roomFor(static_cast<std::size_t>(reduction.tree.mostLeaves()),
                   reduction.result.bytes().size());
  }

  const std::span<const Reduction> reductions_;
};

}  // namespace colla::collective
