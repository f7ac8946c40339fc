// Files as bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::data {

// All of a regular file. kNotFound when there is none; errors name it.
Result<std::vector<std::byte>> readFile(const std::string& path);

}  // namespace colla::data
