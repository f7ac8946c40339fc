// Folds the values of a worker's slices, as they come, into its partial sums.
//
// Slices must come in ascending order, each once; different elements may be at different slices.
// The object is a plan and holds no values: the caller has buffers() buffers of equal length, and
// the first partials() of them end up with the worker's partial sums, one for each maximal subtree
// of its slices. A sum of n slices needs at most log2 n buffers, because a subtree that is complete
// is added to its left neighbour at once.
//
// Immutable, so safe to use from any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "colla/data_type.h"
#include "colla/slices.h"

namespace colla::collective {

struct Kernels;

class PartialSums {
 public:
  // `subtrees` as from SliceMap::subtrees(). Not for 16-bit floats, whose sums are float32.
  PartialSums(std::vector<SliceRange> subtrees, DataType type);

  int partials() const { return static_cast<int>(subtrees_.size()); }
  int buffers() const { return buffers_; }

  // Takes `count` values of `slice`. buffers[i] points to the same elements in buffer i.
  void add(int slice, std::span<std::byte* const> buffers, const void* values,
           std::size_t count) const;
  // The same for values that are all +0.0.
  void addZeros(int slice, std::span<std::byte* const> buffers, std::size_t count) const;

 private:
  struct Place;
  Place placeOf(int slice) const;
  std::byte* bufferAt(std::span<std::byte* const> buffers, const Place& place, int depth) const;
  void merge(std::span<std::byte* const> buffers, const Place& place, int merges,
             std::size_t count) const;

  std::vector<SliceRange> subtrees_;
  const Kernels& kernels_;
  std::size_t elementSize_;
  int buffers_ = 0;
};

}  // namespace colla::collective
