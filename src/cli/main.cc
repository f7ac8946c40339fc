// `colla`: picks the command. A new one is a row in kCommands and a file of its own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/command_line.h"
#include "base/nearest.h"
#include "bench/command.h"
#include "commands.h"

namespace colla::cli {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments& arguments);
};

constexpr std::array kCommands = {
    Command{"agent", "", agentCommand},  // Not for people.
    Command{"bench", "measure, and compare with other systems", bench::benchCommand},
    Command{"compare", "tell whether two checkpoints have the same bits", compareCommand},
    Command{"data", "look at data sets, fetch and make some", dataCommand},
    Command{"demo", "train with every strategy, and prove that the bits are equal", demoCommand},
    Command{"doctor", "tell whether a job can run here, or on other hosts", doctorCommand},
    Command{"eval", "evaluate a checkpoint", evalCommand},
    Command{"export", "write a checkpoint's model as one file, for Python", exportCommand},
    Command{"horovodrun", "start a program with horovodrun's flags", horovodrunCommand},
    Command{"inspect", "show what is in a checkpoint", inspectCommand},
    Command{"models", "list the models there are", modelsCommand},
    Command{"plot", "draw the curves of trainings", plotCommand},
    Command{"predict", "say what a trained model makes of each sample", predictCommand},
    Command{"report", "draw the page of a study, or of several", reportCommand},
    Command{"run", "start a program as the processes of one job", runCommand},
    Command{"runs", "list trainings: what each was, and how far it came", runsCommand},
    Command{"settings", "list all settings and their values", settingsCommand},
    Command{"slurm", "write a batch file for Slurm, and submit it", slurmCommand},
    Command{"study", "measure every strategy on your model, and say which to take", studyCommand},
    Command{"train", "train a model, with any number of workers", trainCommand},
    Command{"version", "tell the version and what is built in", versionCommand},
};

void printOverview() {
  fmt::print(
      "Colla trains one model with many workers.\n\n"
      "Usage: colla COMMAND [arguments]\n\n");
  for (const Command& command : kCommands) {
    if (command.summary.empty()) continue;
    fmt::print("  {:10} {}\n", command.name, command.summary);
  }
  fmt::print(
      "\nIn a clone, ./colla install --prefix DIR installs what programs of your own are built "
      "with.\n"
      "\nExamples:\n"
      "  colla demo                            see what Colla does, in a minute\n"
      "  colla train mlp --np 2 --epochs 3     train with two workers\n"
      "  colla data info synthetic:cifar10     what a data set has\n"
      "  colla run -np 2 -- ./program          a program as two processes of one job\n"
      "  colla study mlp                       which strategy to take for this model, or none\n"
      "  colla bench collectives               Colla beside Gloo and Open MPI\n"
      "  colla bench train                     Colla beside PyTorch\n"
      "  colla bench ps                        Colla's servers beside MXNet's and TensorFlow's\n"
      "  colla help COMMAND                    more about a command, as colla COMMAND --help\n");
}

int main(const Arguments& arguments) {
  if (arguments.empty()) return usageError("colla", "no command given (see colla --help)");
  std::string_view name = arguments.front();
  const bool help = name == "help";  // `colla help train` is `colla train --help`.
  if (name == "--help" || name == "-h" || (help && arguments.size() == 1)) {
    printOverview();
    return 0;
  }
  Arguments rest(arguments.begin() + (help ? 2 : 1), arguments.end());
  if (help) {
    name = arguments[1];
    rest.emplace_back("--help");
  }
  if (name == "--version") name = "version";
  const auto* command = std::ranges::find(kCommands, name, &Command::name);
  if (command == kCommands.end()) {
    std::vector<std::string> names;
    for (const Command& each : kCommands) {
      if (!each.summary.empty()) names.emplace_back(each.name);
    }
    return usageError("colla", fmt::format("there is no command \"{}\"{} (see colla --help)", name,
                                           didYouMean(name, names)));
  }
  return command->run(rest);
}

}  // namespace
}  // namespace colla::cli

int main(int argc, char** argv) {
  colla::obeyInterrupt();
  return colla::cli::main(colla::Arguments(argv + 1, argv + argc));
}
