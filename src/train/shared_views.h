// Rank 0's tensors on every rank, whatever their number, types and shapes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "checkpoint/tensor_view.h"
#include "colla/group.h"

namespace colla::train {

class SharedViews {
 public:
  // Every rank calls it; what others than rank 0 bring does not count. Throws colla::Error.
  SharedViews(Group& group, std::vector<checkpoint::TensorView> mine);

  // By name.
  std::span<const checkpoint::TensorView> views() const { return views_; }

 private:
  std::vector<std::byte> memory_;
  std::vector<checkpoint::TensorView> views_;
};

}  // namespace colla::train
