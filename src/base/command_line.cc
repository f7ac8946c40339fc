#include "base/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace colla {
namespace {

bool isFlag(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

}  // namespace

int usageError(std::string_view command, std::string_view message) {
  fmt::print(stderr, "{}: {}\n", command, message);
  return kExitUsage;
}

std::string normalized(std::string_view flag) {
  if (!isFlag(flag)) return std::string(flag);
  const auto equals = flag.find('=');
  std::string name(flag.substr(0, equals));
  std::ranges::replace(name, '_', '-');
  if (name == "-np") name = "--np";
  if (equals != std::string_view::npos) name += flag.substr(equals);
  return name;
}

Arguments takeCommand(const CLI::App& app, Arguments& arguments) {
  auto word = arguments.begin();
  while (word != arguments.end() && *word != "--" && isFlag(*word)) {
    const std::string flag = normalized(*word);
    const CLI::Option* option = app.get_option_no_throw(flag);
    const bool takesNext = option != nullptr && option->get_items_expected_min() > 0;
    ++word;
    if (takesNext && word != arguments.end()) ++word;
  }
  const bool dashes = word != arguments.end() && *word == "--";
  Arguments command(dashes ? word + 1 : word, arguments.end());
  arguments.erase(word, arguments.end());
  return command;
}

std::optional<int> parse(CLI::App& app, const Arguments& arguments) {
  Arguments words;
  std::ranges::transform(arguments, std::back_inserter(words), normalized);
  std::ranges::reverse(words);  // CLI11 takes them from the back.
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::string message = error.what();
    std::ranges::replace(message, '\n', ' ');
    return usageError(app.get_name(), fmt::format("{} (see {} --help)", message, app.get_name()));
  }
  return std::nullopt;
}

SettingFlags::SettingFlags(CLI::App& app, std::span<const Setting> settings)
    : app_(app), settings_(settings) {
  app.add_option("--config", file_, "TOML file with settings; or COLLA_CONFIG");
  for (const Setting& setting : settings) {
    app.add_option(flagName(setting.name), values_[std::string(setting.name)],
                   std::string(setting.help))
        ->group("Settings (or COLLA_NAME, or in the file)");
  }
}

Result<Config> SettingFlags::load() const {
  std::map<std::string, std::string> given;
  for (const auto& [name, value] : values_) {
    if (app_.get_option(flagName(name))->count() > 0) given[name] = value;
  }
  const char* const file = std::getenv("COLLA_CONFIG");
  return Config::load(settings_, given, file_.empty() && file != nullptr ? file : file_,
                      [](const char* name) { return std::getenv(name); });
}

}  // namespace colla
