// Folds the leaves of a SumTree, or of a part of it, into one value per element, in the tree's
// order. 16-bit floats are added as float32 and rounded once, at the root of the whole tree.
#pragma once

#include <cstddef>
#include <span>

#include "collective/kernels.h"
#include "collective/sum_tree.h"

namespace colla::collective {

class Folder {
 public:
  // Folded at a time: a block's intermediate values stay in the first-level cache.
  static constexpr std::size_t kBlockBytes = 4096;

  // Of `type`, which `op` must support.
  Folder(const SumTree& tree, DataType type, ReduceOp op);
  // A subtree of a larger one, by its nodes. Its value is a term of a sum that goes on elsewhere:
  // of sumType(type).
  Folder(std::span<const SumTree::Node> subtree, DataType type, ReduceOp op);
  // What sums of `type` are kept in until the last one is added: float32 for 16-bit floats.
  static DataType sumType(DataType type) {
    return wideningFor(type) == nullptr ? type : DataType::kFloat32;
  }

  // leaves[i] points to `count` elements of leaf i. The result goes to every one of `outs`, each
  // of which may be the memory of a leaf.
  void operator()(std::span<const std::byte* const> leaves, std::span<std::byte* const> outs,
                  std::size_t count) const;

  // The same for a result that goes to `out` and, by stageBytes(), to `staged`.
  void stage(std::span<const std::byte* const> leaves, std::byte* out, std::byte* staged,
             std::size_t count) const;

 private:
  template <typename Next>
  void foldBlocks(std::span<const std::byte* const> leaves, std::byte* out, std::size_t count,
                  const Next& next) const;
  // Both end with the root alone left, whose children are on the stack.
  void foldBlock(std::span<const std::byte* const> leaves, std::size_t offset, std::byte* out,
                 std::size_t count) const;

  void foldWideBlock(std::span<const std::byte* const> leaves, std::size_t offset, std::byte* out,
                     std::size_t count) const;

  const std::span<const SumTree::Node> nodes_;
  const bool whole_;
  const double divisor_;
  const Kernels& kernels_;
  // Null for what is added as it is; two leaves of a whole tree are added and rounded in one go.
  const Widening* const widening_;
  const Kernels& wide_;
  const std::size_t elementSize_, outSize_;
};

}  // namespace colla::collective
