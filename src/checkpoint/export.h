// A checkpoint's model as one .safetensors file, for other programs.
#pragma once

#include <cstddef>
#include <string>

#include "checkpoint/loaded.h"
#include "colla/status.h"

namespace colla::checkpoint {

struct Exported {
  std::size_t parameters = 0;  // Tensors.
  std::size_t buffers = 0;
  std::uint64_t bytes = 0;  // Of the file.
};

// Parameters and buffers under the names that they have in the module, so that Python's
// load_state_dict() takes them. Writes beside `path` first: the file that was there is replaced by
// a whole one, or stays. An error names the file.
Result<Exported> exportModel(const Loaded& loaded, const std::string& path);

}  // namespace colla::checkpoint
