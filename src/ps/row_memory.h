// A worker's shared memory for rows on their way: given out piece by piece, taken back together.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transport/shared_memory.h"

namespace colla::ps {

class RowMemory {
 public:
  explicit RowMemory(transport::SharedMemory& memory) : memory_(memory) {}

  // Empty when this host has no more.
  std::span<std::byte> take(std::size_t bytes);
  transport::Place placeOf(std::span<const std::byte> piece) const { return memory_.find(piece); }
  // Nobody looks at what was taken any more.
  void takeBack();

 private:
  transport::SharedMemory& memory_;
  std::vector<transport::Mapping> regions_;  // The last one has room, perhaps.
  std::size_t used_ = 0;                     // Of it.
};

}  // namespace colla::ps
