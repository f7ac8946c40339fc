// `colla bench` on the command line.
#pragma once

#include <string>
#include <vector>

namespace colla::bench {

// Carries out `colla bench ARGUMENTS…`. Returns the exit code: 0, 2 for a usage error (one
// line on stderr), 1 for other failures, 128 + n when signal n ended it.
int benchCommand(const std::vector<std::string>& arguments);

}  // namespace colla::bench
