// What a user names to look at: a checkpoint or a single .safetensors file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/loaded.h"
#include "checkpoint/tensor_file.h"
#include "colla/status.h"

namespace colla::checkpoint {

// What a tensor is; kTensor where nobody can tell, as in a single file.
enum class Part { kParameter, kBuffer, kOptimizer, kTensor };
std::string_view toString(Part part);

struct Item {
  Part part = Part::kTensor;
  const TensorView* tensor = nullptr;
};

// PATH, PATH@STEP or PATH@best, taken apart. A path may have an @ of its own: what exists as it
// stands is taken so. kInvalidArgument if what follows the last @ is neither part of a path nor a
// step, kNotFound if no checkpoint is marked as the best one.
struct Named {
  std::string path;
  std::optional<std::int64_t> step;
};
Result<Named> splitStep(const std::string& text);

// Movable; what items() returns points into it.
class Source {
 public:
  // `text` is PATH, PATH@STEP or PATH@best. PATH is a directory of checkpoints or a run's directory
  // with checkpoints/ in it (the newest step, unless one is named), the directory of one step, or a
  // .safetensors file. Checksums are verified where there are any.
  static Result<Source> open(const std::string& text);

  // Of what was opened, with the step.
  const std::string& path() const { return checkpoint_ ? checkpoint_->path() : file_->path(); }
  // nullptr for a single file.
  const Loaded* checkpoint() const { return checkpoint_ ? &*checkpoint_ : nullptr; }
  // Parameters, buffers, optimizer state; each by name.
  std::vector<Item> items() const;

 private:
  explicit Source(Loaded checkpoint) : checkpoint_(std::move(checkpoint)) {}
  explicit Source(TensorFile file) : file_(std::move(file)) {}

  // One of them.
  std::optional<Loaded> checkpoint_;
  std::optional<TensorFile> file_;
};

}  // namespace colla::checkpoint
