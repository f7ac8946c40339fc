// `colla data`: picks one of its commands.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "commands.h"
#include "data_commands.h"

namespace colla::cli {
namespace {

struct DataCommand {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments& arguments);
};

constexpr std::array kDataCommands = {
    DataCommand{"get", "fetch a public data set", dataGetCommand},
    DataCommand{"info", "tell what is in a data set", dataInfoCommand},
    DataCommand{"vocab", "number the words of a text", dataVocabCommand},
    DataCommand{"captions", "make a data set of images and their captions", dataCaptionsCommand},
};

}  // namespace

int dataCommand(const Arguments& arguments) {
  if (arguments.empty())
    return usageError("colla data", "no command given (see colla data --help)");
  const std::string_view name = arguments.front();
  if (name == "--help" || name == "-h") {
    fmt::print(
        "Looks at data sets, fetches and makes some.\n\nUsage: colla data COMMAND [arguments]\n\n");
    for (const DataCommand& command : kDataCommands) {
      fmt::print("  {:10} {}\n", command.name, command.summary);
    }
    fmt::print(
        "\nExamples:\n"
        "  colla data get mnist --dir data/mnist\n"
        "  colla data info synthetic:cifar10            what a data set has\n"
        "  colla data vocab text/train.txt --out text/vocab.txt --words 10000\n"
        "  colla data captions --images coco/train2017 --out captions \\\n"
        "      --annotations coco/captions_train2017.json\n");
    return 0;
  }
  const auto* command = std::ranges::find(kDataCommands, name, &DataCommand::name);
  if (command == kDataCommands.end()) {
    std::vector<std::string> names;
    for (const DataCommand& each : kDataCommands) names.emplace_back(each.name);
    return usageError("colla data",
                      fmt::format("there is no command \"{}\"{} (see colla data --help)", name,
                                  didYouMean(name, names)));
  }
  return command->run(Arguments(arguments.begin() + 1, arguments.end()));
}

}  // namespace colla::cli
