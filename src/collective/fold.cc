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
    : nodes_(tree.nodes()),
      whole_(true),
      divisor_(tree.slices()),
      kernels_(kernelsFor(type, op)),
      widening_(tree.leaves() > 2 ? wideningFor(type) : nullptr),
      wide_(widening_ == nullptr ? kernels_ : kernelsFor(DataType::kFloat32, op)),
      elementSize_(sizeOf(type)),
      outSize_(elementSize_) {}

Folder::Folder(std::span<const SumTree::Node> subtree, DataType type, ReduceOp op)
    : nodes_(subtree),
      whole_(false),
      divisor_(1),
      kernels_(kernelsFor(type, op)),
      widening_(wideningFor(type)),
      wide_(widening_ == nullptr ? kernels_ : kernelsFor(DataType::kFloat32, op)),
      elementSize_(sizeOf(type)),
      outSize_(sizeOf(sumType(type))) {}

void Folder::operator()(std::span<const std::byte* const> leaves, std::span<std::byte* const> outs,
                        std::size_t count) const {
  if (whole_ && leaves.size() == 2 && outs.size() == 2) {
    kernels_.combineRootTwice(outs[0], outs[1], leaves[0], leaves[1], count, divisor_);
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
  const std::size_t block = kBlockBytes / (widening_ == nullptr ? elementSize_ : sizeof(float));
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t part = std::min(block, count - first);
    const std::size_t from = first * elementSize_, to = first * outSize_;
    if (widening_ == nullptr) {
      foldBlock(leaves, from, out + to, part);
    } else {
      foldWideBlock(leaves, from, out + to, part);
    }
    next(to, part * outSize_);
  }
}

// Nodes come children first, so a stack evaluates them. A leaf is used where it lies; an inner
// value goes to the scratch block of its place on the stack; the root goes to `out`.
void Folder::foldBlock(std::span<const std::byte* const> leaves, std::size_t offset, std::byte* out,
                       std::size_t count) const {
  alignas(64) thread_local std::array<std::array<std::byte, kBlockBytes>, kDeepest> scratch;
  std::array<const std::byte*, kDeepest> stack;
  int top = 0;
  for (const SumTree::Node& node : nodes_.first(nodes_.size() - 1)) {
    if (node.leaf >= 0) {
      COLLA_DCHECK(top < kDeepest);
      stack[top++] = leaves[node.leaf] + offset;
      continue;
    }
    std::byte* value = scratch[top - 2].data();
    kernels_.combine(value, stack[top - 2], stack[top - 1], count);
    stack[--top - 1] = value;
  }
  const int only = nodes_.back().leaf;
  if (only >= 0 && whole_) {
    kernels_.finish(out, leaves[only] + offset, count, divisor_);
  } else if (only >= 0) {
    copyBytes(out, leaves[only] + offset, count * elementSize_);
  } else if (whole_) {
    kernels_.combineRoot(out, stack[0], stack[1], count, divisor_);
  } else {
    kernels_.combine(out, stack[0], stack[1], count);
  }
}

// The same with a stack of float32 blocks, on which a leaf is widened.
void Folder::foldWideBlock(std::span<const std::byte* const> leaves, std::size_t offset,
                           std::byte* out, std::size_t count) const {
  alignas(64) thread_local std::array<std::array<float, kBlockBytes / sizeof(float)>, kDeepest>
      stack;
  int top = 0;
  for (const SumTree::Node& node : nodes_.first(nodes_.size() - 1)) {
    if (node.leaf >= 0) {
      COLLA_DCHECK(top < kDeepest);
      widening_->widen(stack[top++].data(), leaves[node.leaf] + offset, count);
      continue;
    }
    --top;
    wide_.combine(stack[top - 1].data(), stack[top - 1].data(), stack[top].data(), count);
  }
  float* const sum = stack[0].data();
  if (whole_) {
    wide_.combineRoot(sum, sum, stack[1].data(), count, divisor_);
    widening_->round(out, sum, count);
  } else if (nodes_.back().leaf >= 0) {
    widening_->widen(reinterpret_cast<float*>(out), leaves[nodes_.back().leaf] + offset, count);
  } else {
    wide_.combine(out, sum, stack[1].data(), count);
  }
}

}  // namespace colla::collective
