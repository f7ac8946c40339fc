// A sorted table of keys and values in one file, as LevelDB writes it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::foreign {

// Calls `take` for each entry, in the order of keys, until it returns an error, which this returns
// too. Every block's checksum is checked, and compressed blocks (Snappy) are expanded. kIo for a
// file that is no such table, or is damaged.
Status readTable(const std::string& path,
                 const std::function<Status(std::string_view key, std::string_view value)>& take);

}  // namespace colla::foreign
