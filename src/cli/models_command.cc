#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "models/catalog.h"
#include "models/task.h"

namespace colla::cli {
namespace {

// 89610 -> "89,610".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<std::size_t>(place), ",");
  }
  return text;
}

}  // namespace

int modelsCommand(const Arguments& arguments) {
  CLI::App app(
      "Lists the models that `colla train` knows: their parameters, and what they are trained "
      "with\n"
      "unless flags say otherwise.",
      "colla models");
  app.footer(
      "Example:\n"
      "  colla models --json\n"
      "  colla train mlp --help                  the flags of one model\n");
  bool asJson = false;
  app.add_flag("--json", asJson, "print JSON");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;

  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  if (!asJson) {
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
    std::string flags = models::toString(models::defaults(entry.flags));
    if (asJson) {
      all.push_back({{"name", entry.name},
                     {"summary", entry.summary},
                     {"parameters", count},
                     {"data", entry.data},
                     {"batch", entry.batch},
                     {"optimizer", optimizer},
                     {"flags", flags}});
      continue;
    }
    if (entry.flags.size() > 1) flags.clear();  // Too many for a line: they are in the help.
    // Name and learning rate; the rest are torch's defaults.
    const std::string brief = fmt::format("{} {}", optimizer.substr(0, optimizer.find(' ')),
                                          learningRate(entry.optimizer));
    fmt::print("{:11} {:>10}  {:24} {:>5}  {:11} {}{}\n", entry.name, grouped(count), entry.data,
               entry.batch, brief, entry.summary,
               flags.empty() ? "" : fmt::format(" (--{})", flags));
  }
  if (asJson) fmt::print("{}\n", all.dump(2));
  return 0;
}

}  // namespace colla::cli
