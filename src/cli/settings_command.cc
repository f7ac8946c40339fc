#include <fmt/format.h>

#include "base/command_line.h"
#include "commands.h"
#include "job/settings.h"
#include "job/unknown_variables.h"

namespace colla::cli {

int settingsCommand(const Arguments& arguments) {
  CLI::App app("Lists all settings: default, value now, where it comes from, and what it is for.",
               "colla settings");
  std::string file;
  app.add_option("--config", file, "TOML file with settings; or COLLA_CONFIG")->option_text("FILE");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;

  const auto config = job::loadConfig({}, file);
  if (!config.ok()) return usageError(app.get_name(), config.status().message());
  const auto shown = [](std::string_view text) {
    return text.empty() ? std::string("\"\"") : std::string(text);
  };
  fmt::print("{:20} {:10} {:14} {}\n", "setting", "default", "now", "from");
  for (const Setting& setting : config->settings()) {
    fmt::print("{:20} {:10} {:14} {}\n    {}\n", setting.name, shown(setting.fallback),
               shown(config->value(setting.name)), config->origin(setting.name), setting.help);
  }
  fmt::print("\nSet one with a flag ({}), a variable ({}) or in the TOML file of --config.\n",
             flagName("log"), variableName("log"));
  const std::string notice = job::unknownVariablesNotice();
  if (!notice.empty()) fmt::print(stderr, "{}: {}\n", app.get_name(), notice);
  return 0;
}

}  // namespace colla::cli
