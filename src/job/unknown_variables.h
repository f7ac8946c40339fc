// Variables that look like settings and are none: a slip of the pen would go unnoticed.
#pragma once

#include <string>
#include <vector>

namespace colla::job {

// The names that begin with COLLA_ and that nothing in Colla reads, sorted. `entries` are
// "NAME=VALUE", ended by a null, as in environ.
std::vector<std::string> unknownVariables(const char* const* entries);

// A line that names those of this process's environment; empty where there are none.
std::string unknownVariablesNotice();

}  // namespace colla::job
