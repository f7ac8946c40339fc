// Files as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::data {

// A regular file that is open for reading.
struct OpenFile {
  UniqueFd descriptor;
  std::int64_t size = 0;
};
// kNotFound when there is none; errors name it.
Result<OpenFile> openFile(const std::string& path);

// All of a regular file.
Result<std::vector<std::byte>> readFile(const std::string& path);

// "cannot read PATH: …" for an errno.
Status readFailure(const std::string& path, int error);

}  // namespace colla::data
