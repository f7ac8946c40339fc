// Folds the leaves of a SumTree into one value per element, in the tree's order.
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
  void foldBlock(std::span<const std::byte* const> leaves, std::size_t offset, std::byte* out,
                 std::size_t count) const;

  const SumTree& tree_;
  const Kernels& kernels_;
  std::size_t elementSize_;
};

}  // namespace colla::collective
