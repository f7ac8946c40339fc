// `colla bench` on the command line.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace colla::bench {

// Adds the command `bench`, with its own commands and help, to `app`. When one of them was chosen,
// parsing leaves in `action` what carries it out and returns the exit code.
void addBenchCommand(CLI::App& app, std::function<int()>& action);

}  // namespace colla::bench
