// Flat: every rank sends its partial sums to every other and folds all of them itself. One round
// of small messages: the quickest way for few ranks and few bytes.
#include <memory>
#include <vector>

#include "collective/algorithms.h"
#include "collective/fold.h"
#include "collective/messages.h"

namespace colla::collective {

Status allreduceFlat(const Reduction& reduction) {
  const auto& [turn, tree, partials, result, op] = reduction;
  const std::size_t bytes = result.bytes().size();
  const auto received = std::make_unique_for_overwrite<std::byte[]>(bytes * tree.leaves());
  std::vector<const std::byte*> leaves(tree.leaves());
  Messages messages(turn);

  for (int rank = 0; rank < turn.size(); ++rank) {
    for (int i = 0; i < tree.leavesOf(rank); ++i) {
      const int leaf = tree.firstLeaf(rank) + i;
      leaves[leaf] = rank == turn.rank() ? partials[i].data() : &received[leaf * bytes];
      if (rank != turn.rank()) messages.recv(rank, i, {&received[leaf * bytes], bytes});
    }
  }
  for (int rank = 0; rank < turn.size(); ++rank) {
    if (rank == turn.rank()) continue;
    std::uint32_t step = 0;
    for (const ConstBuffer& partial : partials) messages.send(rank, step++, partial.bytes());
  }
  COLLA_TRY(messages.wait());
  std::byte* const out = result.data();
  Folder(tree, result.type(), op)(leaves, std::span(&out, 1), result.count());
  return {};
}

}  // namespace colla::collective
