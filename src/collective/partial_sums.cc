// The sums of a subtree's slices are a stack, like the digits of a binary counter: before slice i
// of a subtree it holds one complete subtree for each bit that is set in i, the largest at the
// bottom. Slice i completes as many of them as i has trailing ones, and the last slice all that are
// left: the canonical tree splits at the largest power of two, so what is left folds from the
// right.
#include "collective/partial_sums.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "collective/kernels.h"

namespace colla::collective {

struct PartialSums::Place {
  int subtree;
  int depth;   // Of the stack, before this slice.
  int merges;  // That this slice completes.
};

namespace {

int mergesOf(int index, int size, int depth) {
  return index == size - 1 ? depth : std::countr_one(static_cast<unsigned>(index));
}

}  // namespace

PartialSums::PartialSums(std::vector<SliceRange> subtrees, DataType type)
    : subtrees_(std::move(subtrees)),
      kernels_(kernelsFor(type, ReduceOp::kSum)),
      elementSize_(sizeOf(type)) {
  COLLA_CHECK(wideningFor(type) == nullptr);
  int deepest = 1;
  for (const SliceRange& subtree : subtrees_) {
    for (int index = 0; index < subtree.size(); ++index) {
      const int depth = std::popcount(static_cast<unsigned>(index));
      if (mergesOf(index, subtree.size(), depth) == 0) deepest = std::max(deepest, depth + 1);
    }
  }
  buffers_ = partials() + deepest - 1;
}

PartialSums::Place PartialSums::placeOf(int slice) const {
  const auto subtree = std::ranges::find_if(
      subtrees_, [&](SliceRange range) { return slice >= range.begin && slice < range.end; });
  COLLA_CHECK(subtree != subtrees_.end());  // The caller's slices, and no others.
  const int index = slice - subtree->begin;
  const int depth = std::popcount(static_cast<unsigned>(index));
  return {static_cast<int>(subtree - subtrees_.begin()), depth,
          mergesOf(index, subtree->size(), depth)};
}

// The bottom of a subtree's stack is its result; what is above is shared by all subtrees.
std::byte* PartialSums::bufferAt(std::span<std::byte* const> buffers, const Place& place,
                                 int depth) const {
  return buffers[depth == 0 ? place.subtree : partials() + depth - 1];
}

void PartialSums::merge(std::span<std::byte* const> buffers, const Place& place, int merges,
                        std::size_t count) const {
  for (int depth = place.depth - 1; merges > 1; --merges, --depth) {
    std::byte* const left = bufferAt(buffers, place, depth - 1);
    kernels_.combine(left, left, bufferAt(buffers, place, depth), count);
  }
}

void PartialSums::add(int slice, std::span<std::byte* const> buffers, const void* values,
                      std::size_t count) const {
  if (count == 0) return;
  const Place place = placeOf(slice);
  if (place.merges == 0) {
    copyBytes(bufferAt(buffers, place, place.depth), values, count * elementSize_);
    return;
  }
  std::byte* const left = bufferAt(buffers, place, place.depth - 1);
  kernels_.combine(left, left, values, count);
  merge(buffers, place, place.merges, count);
}

// Adding +0.0 changes nothing but the sign of a zero, which the root of the tree sets anyway.
void PartialSums::addZeros(int slice, std::span<std::byte* const> buffers,
                           std::size_t count) const {
  if (count == 0) return;
  const Place place = placeOf(slice);
  if (place.merges == 0) {
    std::memset(bufferAt(buffers, place, place.depth), 0, count * elementSize_);
    return;
  }
  merge(buffers, place, place.merges, count);
}

}  // namespace colla::collective
