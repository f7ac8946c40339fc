#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/readable.h"
#include "commands.h"
#include "models/catalog.h"
#include "models/task.h"

namespace colla::cli {
namespace {

// What a model is trained with, as the flags that would say so.
std::vector<std::string> flagsOf(const models::Entry& entry) {
  std::vector<std::string> flags;
  if (entry.schedule != Schedule()) {
    flags.push_back("--lr-schedule " + toString(entry.schedule));
  }
  if (entry.clipNorm > 0) flags.push_back(fmt::format("--clip-norm {}", entry.clipNorm));
  for (const models::Flag& flag : entry.flags) {
    if (!flag.fallback.empty()) flags.push_back(fmt::format("--{} {}", flag.name, flag.fallback));
  }
  return flags;
}

// Lines under the model's own, indented, none longer than a terminal.
void printFlags(const std::vector<std::string>& flags) {
  constexpr std::size_t kWidth = 100;
  const std::string indent(11, ' ');
  std::string line = indent;
  for (const std::string& flag : flags) {
    if (line.size() + 1 + flag.size() > kWidth) {
      fmt::print("{}\n", line);
      line = indent;
    }
    line += " " + flag;
  }
  if (line.size() > indent.size()) fmt::print("{}\n", line);
}

}  // namespace

int modelsCommand(const Arguments& arguments) {
  CLI::App app(
      "Lists the models that `colla train` knows: their parameters, and what they are trained "
      "with\n"
      "unless flags say otherwise. Running statistics are not counted among the parameters.",
      "colla models");
  app.footer(
      "Example:\n"
      "  colla models --json\n"
      "  colla train mlp --help                  the flags of one model\n");
  std::string json;
  addJsonFlag(app, json, "the same as JSON");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  const bool asText = json != "-";

  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  if (asText) {
    fmt::print("{:11} {:>10}  {:24} {:>5}  {:11} {}\n", "model", "parameters", "data", "batch",
               "optimizer", "what it is");
  }
  for (const models::Entry& entry : models::catalog()) {
    const auto task = models::makeTask(entry, models::defaults(entry.flags),
                                       std::string(entry.data), Part::kTest);  // The smaller part.
    if (!task.ok()) {
      fmt::print(stderr, "{}: {}: {}\n", app.get_name(), entry.name, task.status().message());
      return 1;
    }
    const std::int64_t count = models::countParameters(task->model);
    const std::string optimizer = toString(entry.optimizer);
    all.push_back({{"name", entry.name},
                   {"summary", entry.summary},
                   {"parameters", count},
                   {"data", entry.data},
                   {"batch", entry.batch},
                   {"optimizer", optimizer},
                   {"schedule", toString(entry.schedule)},
                   {"clip_norm", entry.clipNorm},
                   {"flags", models::toString(models::defaults(entry.flags))}});
    if (!asText) continue;
    // Name and learning rate; the rest are torch's defaults.
    const std::string brief = fmt::format("{} {}", optimizer.substr(0, optimizer.find(' ')),
                                          learningRate(entry.optimizer));
    fmt::print("{:11} {:>10}  {:24} {:>5}  {:11} {}\n", entry.name, grouped(count), entry.data,
               entry.batch, brief, entry.summary);
    printFlags(flagsOf(entry));
  }
  if (asText)
    fmt::print("Running statistics (of BatchNorm) are not counted among the parameters.\n");
  const Status written = writeJson(json, all.dump(2));
  if (written.ok()) return 0;
  fmt::print(stderr, "{}: {}\n", app.get_name(), written.message());
  return 1;
}

}  // namespace colla::cli
