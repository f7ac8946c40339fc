// `colla-train`: the commands of `colla` that need libtorch (see torch_commands.cc). It takes the
// same words as `colla`, which becomes it.
#include <array>

#include "commands.h"

namespace colla::cli {
namespace {

struct Command {
  std::string_view name;
  int (*run)(const Arguments& arguments);
};

constexpr std::array kCommands = {
    Command{"eval", evalCommand},
    Command{"models", modelsCommand},
    Command{"predict", predictCommand},
    Command{"train", trainCommand},
};

int main(const Arguments& arguments) {
  for (const Command& command : kCommands) {
    if (arguments.empty() || arguments.front() != command.name) continue;
    return command.run(Arguments(arguments.begin() + 1, arguments.end()));
  }
  return usageError("colla-train", "this is a part of colla: see colla --help");
}

}  // namespace
}  // namespace colla::cli

int main(int argc, char** argv) {
  return colla::cli::main(colla::Arguments(argv + 1, argv + argc));
}
