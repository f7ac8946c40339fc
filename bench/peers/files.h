// The programs of peers as files, for what starts them outside of `colla bench`.
#pragma once

#include <string>

#include "colla/status.h"

namespace colla::bench {

// Writes every file of bench/peers into `folder`, which is made. kUnsupported in a build without
// benchmarks.
Status writePeerFiles(const std::string& folder);

}  // namespace colla::bench
