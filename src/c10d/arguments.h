// What the operations of a process group check before they begin, and in whose words they refuse.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <vector>

namespace colla::c10d {

// For torch's own checks: what to do with what is wrong.
inline auto refusing(const char* operation) {
  return [operation](const std::string& text) {
    TORCH_CHECK(false, "colla: ", operation, ": ", text);
  };
}

// Tensors in this machine's memory, and not sparse.
inline void checkPlain(const char* operation, const std::vector<at::Tensor>& tensors) {
  const auto refuse = refusing(operation);
  ::c10d::assertNonEmpty(refuse, tensors);
  ::c10d::assertDense(refuse, tensors);
  ::c10d::assertCPU(refuse, tensors);
}

}  // namespace colla::c10d
