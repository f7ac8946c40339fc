// `colla bench ps` on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace colla::bench {

// As addTrain().
void addPs(CLI::App& bench, std::function<int()>& action);

}  // namespace colla::bench
