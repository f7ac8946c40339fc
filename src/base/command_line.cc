#include "base/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "base/help.h"
#include "base/nearest.h"

namespace colla {
namespace {

bool isFlag(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

// An app and its subcommands.
std::vector<CLI::App*> withSubcommands(CLI::App& app) {
  std::vector<CLI::App*> all = {&app};
  for (CLI::App* const sub : app.get_subcommands({})) all.push_back(sub);
  return all;
}

const CLI::Option* findOption(CLI::App& app, const std::string& name) {
  for (CLI::App* const each : withSubcommands(app)) {
    if (const CLI::Option* const option = each->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

std::vector<std::string> flagsOf(CLI::App& app) {
  std::vector<std::string> names;
  for (CLI::App* const each : withSubcommands(app)) {
    for (const CLI::Option* const option : each->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string nothingFollows(const CLI::Option& option) {
  return fmt::format("{} takes {}, but nothing follows it", option.get_name(), valueText(option));
}

std::string noSuchFlag(CLI::App& app, const std::string& name) {
  return fmt::format("there is no flag {}{}", name, didYouMean(name, flagsOf(app)));
}

// Whether `name`, which is no flag of the app, looks like one. One dash and a letter that is a flag
// may have the value right behind it, as -n2 does, and a number may be below 0.
bool isUnknown(CLI::App& app, const std::string& name) {
  if (name.starts_with("--")) return true;
  const bool letter = std::isalpha(static_cast<unsigned char>(name[1])) != 0;
  return letter && findOption(app, name.substr(0, 2)) == nullptr;
}

// As CLI11 has it: "True", "off", "1".
bool isTruth(const std::string& word) {
  bool truth = false;
  return CLI::detail::lexical_cast(word, truth);
}

// What is wrong with the names of commands and flags, and flags that lack their value; empty if
// nothing is. Before CLI11 looks, which would first miss what a mistyped flag should have given.
std::string wrongName(CLI::App& app, const Arguments& words) {
  const auto subcommands = app.get_subcommands({});
  if (!subcommands.empty() && !words.empty() && !isFlag(words.front())) {
    std::vector<std::string> names;
    for (const CLI::App* const sub : subcommands) names.push_back(sub->get_name());
    if (std::ranges::find(names, words.front()) == names.end()) {
      return fmt::format("there is no command \"{}\"{}", words.front(),
                         didYouMean(words.front(), names));
    }
  }
  for (auto word = words.begin(); word != words.end() && *word != "--"; ++word) {
    if (!isFlag(*word)) continue;
    const std::string name = word->substr(0, word->find('='));
    const CLI::Option* const option = findOption(app, name);
    if (option == nullptr) {
      if (isUnknown(app, name)) return noSuchFlag(app, name);
      continue;
    }
    if (name != *word && option->get_items_expected_max() == 0 &&
        !isTruth(word->substr(name.size() + 1))) {
      return fmt::format("{} is \"{}\", but takes true, false or nothing", name,
                         word->substr(name.size() + 1));
    }
    const bool takesNext = option->get_items_expected_min() > 0 && name == *word;
    if (!takesNext || word + 1 == words.end()) continue;
    const std::string next = (word + 1)->substr(0, (word + 1)->find('='));
    if (next == "--" || (isFlag(next) && findOption(app, next) != nullptr)) {
      return nothingFollows(*option);
    }
    if (!next.starts_with("--")) ++word;  // Its value, whatever that looks like.
  }
  return "";
}

// CLI11's words, or better ones. It says "NAME: what" or "Could not convert: NAME = VALUE", and no
// more.
std::string messageOf(CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  std::ranges::replace(text, '\n', ' ');
  const auto optionBefore = [&](std::string_view mark) {
    return findOption(app, text.substr(0, text.find(mark)));
  };
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    constexpr std::string_view kHead = "Could not convert: ";
    if (text.starts_with(kHead)) text.erase(0, kHead.size());
    const auto equals = text.find(" = ");
    if (const CLI::Option* const option = optionBefore(" = "); option != nullptr) {
      return fmt::format("{} is \"{}\", but takes {}", text.substr(0, equals),
                         text.substr(equals + 3), valueText(*option));
    }
  }
  for (const std::string_view extra : {"The following argument was not expected: ",
                                       "The following arguments were not expected: "}) {
    if (!text.starts_with(extra)) continue;
    const std::string word = text.substr(text.rfind(' ') + 1);  // The first one comes last.
    if (isFlag(word)) return fmt::format("there is no flag {}", word);
    return fmt::format("there is no place for \"{}\"", word);
  }
  // What stands without a flag is called as the usage line has it.
  const CLI::Option* const required = optionBefore(" is required");
  if (required != nullptr && required->get_positional() && text.ends_with(" is required")) {
    return fmt::format("{} is required", required->get_name(/*positional=*/true));
  }
  const CLI::Option* const option = optionBefore(":");
  if (option != nullptr && text.ends_with(" missing")) {
    return nothingFollows(*option);
  }
  if (option != nullptr && text.find(": At Most 1 ") != std::string::npos) {
    return fmt::format("{} is given more than once", option->get_name());
  }
  for (const auto& [before, after] :
       {std::pair(": ", " not in {"), std::pair(": Value ", " not in range ")}) {
    const auto end = text.find(after);
    if (option == nullptr || end == std::string::npos) continue;
    const auto value = text.find(before) + std::string_view(before).size();
    return fmt::format("{} is \"{}\", but takes {}", option->get_name(),
                       text.substr(value, end - value), valueText(*option));
  }
  return text;
}

// What --help calls the value of a setting.
std::string settingWord(const Setting& setting) {
  if (setting.type == SettingType::kInteger) return "N";
  if (setting.type == SettingType::kSeconds) return "SECONDS";
  return setting.name.ends_with("file") || setting.name == "timeline" ? "FILE" : "NAME";
}

}  // namespace

void obeyInterrupt() {
  struct sigaction action {};
  if (sigaction(SIGINT, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
    std::signal(SIGINT, SIG_DFL);
  }
}

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
  const auto refuse = [&](const std::string& message) {
    return usageError(app.get_name(), fmt::format("{} (see {} --help)", message, app.get_name()));
  };
  const bool help = std::ranges::any_of(
      words, [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (const std::string wrong = wrongName(app, words); !help && !wrong.empty())
    return refuse(wrong);
  for (CLI::App* const each : withSubcommands(app)) {
    each->formatter(std::make_shared<HelpFormatter>());
    if (each->get_help_ptr() != nullptr) each->get_help_ptr()->description("print this and end");
  }
  std::ranges::reverse(words);  // CLI11 takes them from the back.
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return refuse(messageOf(app, error));
  }
  return std::nullopt;
}

CLI::Option* addJsonFlag(CLI::App& app, std::string& file, const std::string& help) {
  return app.add_option("--json", file, help + ", on standard output or in FILE")
      ->option_text("FILE")
      ->expected(0, 1)
      ->default_str("-");
}

Status writeJson(const std::string& file, std::string_view text) {
  if (file.empty()) return {};
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (file == "-") {
    fmt::print("{}\n", text);
    return {};
  }
  std::ofstream out(file, std::ios::binary);
  out << text << "\n";
  out.close();
  if (out.good()) return {};
  return {StatusCode::kIo, fmt::format("cannot write {}: {}", file, std::strerror(errno))};
}

SettingFlags::SettingFlags(CLI::App& app, std::span<const Setting> settings)
    : app_(app), settings_(settings) {
  app.add_option("--config", file_, "TOML file with settings; or COLLA_CONFIG")
      ->option_text("FILE");
  for (const Setting& setting : settings) {
    app.add_option(flagName(setting.name), values_[std::string(setting.name)],
                   std::string(setting.help))
        ->option_text(settingWord(setting))
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
