// The tree is folded block by block. A block is small enough that its intermediate values stay in
// the first-level cache, so each leaf is read from memory once and each result written once.
#include "collective/fold.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace colla::collective {
namespace {

// Of the stack of values that wait for their right neighbour: one for each level of the tree.
constexpr int kDeepest = 32;

}  // namespace

Folder::Folder(const SumTree& tree, DataType type, ReduceOp op)
    : tree_(tree), kernels_(kernelsFor(type, op)), elementSize_(sizeOf(type)) {}

void Folder::operator()(std::span<const std::byte* const> leaves, std::span<std::byte* const> outs,
                        std::size_t count) const {
  if (leaves.size() == 2 && outs.size() == 2) {
    kernels_.combineRootTwice(outs[0], outs[1], leaves[0], leaves[1], count, tree_.slices());
    return;
  }
  foldBlocks(leaves, outs[0], count, [&](std::size_t offset, std::size_t bytes) {
    for (std::byte* out : outs.subspan(1)) copyBytes(out + offset, outs[0] + offset, bytes);
  });
}

void Folder::stage(std::span<const std::byte* const> leaves, std::byte* out, std::byte* staged,
                   std::size_t count) const {
  foldBlocks(leaves, out, count, [&](std::size_t offset, std::size_t bytes) {
    stageBytes(staged + offset, out + offset, bytes);
  });
}

// next(offset, bytes): these of `out` have just been written.
template <typename Next>
void Folder::foldBlocks(std::span<const std::byte* const> leaves, std::byte* out, std::size_t count,
                        const Next& next) const {
  const std::size_t block = kBlockBytes / elementSize_;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t part = std::min(block, count - first);
    const std::size_t offset = first * elementSize_;
    foldBlock(leaves, offset, out + offset, part);
    next(offset, part * elementSize_);
  }
}

// Nodes come children first, so a stack evaluates them. A leaf is used where it lies; an inner
// value goes to the scratch block of its place on the stack; the root goes to `out`.
void Folder::foldBlock(std::span<const std::byte* const> leaves, std::size_t offset, std::byte* out,
                       std::size_t count) const {
  alignas(64) thread_local std::array<std::array<std::byte, kBlockBytes>, kDeepest> scratch;
  std::array<const std::byte*, kDeepest> stack;
  int top = 0;
  const double divisor = tree_.slices();
  const auto nodes = tree_.nodes();

  for (const SumTree::Node& node : nodes.first(nodes.size() - 1)) {
    if (node.leaf >= 0) {
      COLLA_DCHECK(top < kDeepest);
      stack[top++] = leaves[node.leaf] + offset;
      continue;
    }
    std::byte* value = scratch[top - 2].data();
    kernels_.combine(value, stack[top - 2], stack[top - 1], count);
    stack[--top - 1] = value;
  }
  if (nodes.back().leaf >= 0) {
    kernels_.finish(out, leaves[nodes.back().leaf] + offset, count, divisor);
  } else {
    kernels_.combineRoot(out, stack[0], stack[1], count, divisor);
  }
}

}  // namespace colla::collective
