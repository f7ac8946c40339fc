// Finds the file that a command's first word stands for.
#pragma once

#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::launch {

// The path of `name`: itself if it has a slash, else the first executable file in `path`
// (directories between colons). kNotFound or, for a file that may not be executed, kRefused.
Result<std::string> findProgram(const std::string& name, std::string_view path);

}  // namespace colla::launch
