// A file in a zip archive.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::foreign {

// The entry `name` of the archive, with its checksum checked: stored as it is, or deflated. kIo for
// what is no archive, is damaged or lacks the entry.
Result<std::vector<std::byte>> readZipEntry(const std::string& path, std::string_view name);

}  // namespace colla::foreign
