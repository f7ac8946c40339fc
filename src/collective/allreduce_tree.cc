// Tree: the messages follow the canonical tree itself. The rank of a node's leftmost leaf forms
// its value; the rank of the right child sends its own there. The root's value is at rank 0, which
// hands it on. O(log n) messages per rank: for few bytes and many ranks.
#include <memory>
#include <vector>

#include "collective/algorithms.h"
#include "collective/kernels.h"
#include "collective/messages.h"

namespace colla::collective {
namespace {

// The messages that hand the result on are numbered from here.
std::uint32_t firstStepAfter(const SumTree& tree) {
  return static_cast<std::uint32_t>(tree.nodes().size());
}

// Into `result` of rank 0; the others' is not used.
Status foldAtRankZero(const Reduction& reduction) {
  const auto& [turn, tree, partials, result, op] = reduction;
  const int self = turn.rank();
  const Kernels& kernels = kernelsFor(partials[0].type(), op);
  const std::size_t bytes = partials[0].bytes().size();
  const std::size_t count = partials[0].count();
  const auto nodes = tree.nodes();

  // values[n]: where this rank has node n; each inner value overwrites scratch of its own.
  std::vector<const std::byte*> values(nodes.size(), nullptr);
  std::vector<std::unique_ptr<std::byte[]>> scratch;
  const auto room = [&] {
    return scratch.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
  };
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const SumTree::Node& node = nodes[n];
    const bool root = n + 1 == nodes.size();
    if (node.leaf >= 0) {
      if (node.rank != self) continue;
      values[n] = partials[node.leaf - tree.firstLeaf(self)].data();
      if (root) kernels.finish(result.data(), values[n], count, tree.slices());
      continue;
    }
    const int sender = nodes[node.right].rank;
    Messages messages(turn);
    if (sender == self && node.rank != self) {
      messages.send(node.rank, static_cast<std::uint32_t>(n), {values[node.right], bytes});
      COLLA_TRY(messages.wait());
    }
    if (node.rank != self) continue;
    const std::byte* right = values[node.right];
    if (sender != self) {
      std::byte* arrived = room();
      messages.recv(sender, static_cast<std::uint32_t>(n), {arrived, bytes});
      COLLA_TRY(messages.wait());
      right = arrived;
    }
    if (root) {
      kernels.combineRoot(result.data(), values[node.left], right, count, tree.slices());
    } else {
      std::byte* value = room();
      kernels.combine(value, values[node.left], right, count);
      values[n] = value;
    }
  }
  return {};
}

}  // namespace

Status allreduceTree(const Reduction& reduction) {
  COLLA_TRY(foldAtRankZero(reduction));
  return broadcastMessages(reduction.turn, reduction.result.bytes(), 0,
                           firstStepAfter(reduction.tree));
}

Status reduceTree(const Reduction& reduction, int root) {
  if (root == 0) return foldAtRankZero(reduction);
  const ConstBuffer partial = reduction.partials[0];
  const int self = reduction.turn.rank();
  const std::uint32_t step = firstStepAfter(reduction.tree);
  const auto room = std::make_unique_for_overwrite<std::byte[]>(partial.bytes().size());
  Reduction folding = reduction;
  folding.result = Buffer(room.get(), partial.count(), partial.type());
  COLLA_TRY(foldAtRankZero(folding));
  Messages messages(reduction.turn);
  if (self == 0) messages.send(root, step, folding.result.bytes());
  if (self == root) messages.recv(0, step, reduction.result.bytes());
  return messages.wait();
}

}  // namespace colla::collective
