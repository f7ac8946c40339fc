// `colla bench hybrid` on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace colla::bench {

// When the command is chosen, parsing leaves in `action` what carries it out.
void addHybrid(CLI::App& bench, std::function<int()>& action);

}  // namespace colla::bench
