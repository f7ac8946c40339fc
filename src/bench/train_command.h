// `colla bench train` on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace colla::bench {

// Adds the command to `bench`. When it is chosen, parsing leaves in `action` what carries it out.
void addTrain(CLI::App& bench, std::function<int()>& action);

}  // namespace colla::bench
