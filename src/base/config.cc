#include "base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/nearest.h"

namespace colla {
namespace {

using enum SettingType;

const Setting* find(std::span<const Setting> table, std::string_view name) {
  const auto it = std::ranges::find(table, name, &Setting::name);
  return it == table.end() ? nullptr : &*it;
}

std::vector<std::string> namesOf(std::span<const Setting> table) {
  std::vector<std::string> names;
  for (const Setting& setting : table) names.emplace_back(setting.name);
  return names;
}

template <typename T>
std::optional<T> parsed(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> wordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    words.push_back(word);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return words;
}

bool fits(const Setting& setting, std::string_view text) {
  switch (setting.type) {
    case kText: {
      const auto choices = wordsOf(setting.choices);
      return choices.empty() || std::ranges::find(choices, text) != choices.end();
    }
    case kInteger: {
      const auto value = parsed<std::int64_t>(text);
      return value && *value >= setting.least && *value <= setting.most;
    }
    case kSeconds: {
      const auto value = parsed<double>(text);
      return value && *value >= 0;
    }
  }
  return false;
}

// What a setting takes: "auto, shm, tcp or tcp-plain", "a whole number from 1 to 16".
std::string wanted(const Setting& setting) {
  switch (setting.type) {
    case kText: {
      const auto choices = wordsOf(setting.choices);
      std::string text;
      for (std::size_t i = 0; i < choices.size(); ++i) {
        text += i == 0 ? "" : i + 1 < choices.size() ? ", " : " or ";
        text += choices[i];
      }
      return text;
    }
    case kInteger:
      if (setting.least == 0 && setting.most == 1) return "0 or 1";
      return fmt::format("a whole number from {} to {}", setting.least, setting.most);
    case kSeconds:
      return "a number of seconds";
  }
  return "";
}

Status checkValue(const Setting& setting, std::string_view text, std::string_view origin) {
  if (fits(setting, text)) return {};
  const auto choices = wordsOf(setting.choices);
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is \"{}\", but takes {}{}", origin, text, wanted(setting),
                      didYouMean(text, {choices.begin(), choices.end()}))};
}

// toml++ 3.3 runs into undefined behaviour at some letters beyond ASCII, and has no reason for a
// file that it can't open.
Status checkFile(const std::string& file) {
  errno = 0;
  std::ifstream in(file);
  std::error_code ignored;
  if (!in || std::filesystem::is_directory(file, ignored)) {
    const std::string why = in ? "it is a folder" : std::strerror(errno);
    return {StatusCode::kInvalidArgument,
            fmt::format("settings file {} cannot be read: {}", file, why)};
  }
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (std::ranges::all_of(line, [](unsigned char c) { return c < 0x80; })) continue;
    return {StatusCode::kInvalidArgument,
            fmt::format("{} line {}: a settings file is ASCII; write other letters as \\uXXXX, in "
                        "double quotes",
                        file, number)};
  }
  return {};
}

// A TOML scalar as the text that a flag would have had; nothing if it is neither text nor a number.
std::optional<std::string> tomlText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  return std::nullopt;
}

}  // namespace

std::string flagName(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string variableName(std::string_view name) {
  std::string variable = "COLLA_" + std::string(name);
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return variable;
}

Result<Config> Config::load(std::span<const Setting> settings,
                            const std::map<std::string, std::string>& flags,
                            const std::string& file, const Environment& environment) {
  Config config;
  config.settings_ = settings;
  for (const Setting& setting : settings) {
    config.values_[std::string(setting.name)] = {std::string(setting.fallback), "default"};
  }
  // The weakest place first, so that stronger ones overwrite it.
  if (!file.empty()) {
    COLLA_TRY(checkFile(file));
    toml::table table;
    try {
      table = toml::parse_file(file);
    } catch (const toml::parse_error& error) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} line {}: {}", file, error.source().begin.line, error.description())};
    }
    for (const auto& [key, node] : table) {
      const Setting* setting = find(settings, key.str());
      if (setting == nullptr) {
        return {StatusCode::kInvalidArgument,
                fmt::format(
                    "{} line {}: there is no setting \"{}\"{} (`colla settings` lists them)", file,
                    node.source().begin.line, key.str(), didYouMean(key.str(), namesOf(settings)))};
      }
      const std::string origin =
          fmt::format("{} line {}: {}", file, node.source().begin.line, setting->name);
      const auto text = tomlText(node);
      if (!text) {
        return {StatusCode::kInvalidArgument,
                fmt::format("{} is neither text nor a number", origin)};
      }
      COLLA_TRY(checkValue(*setting, *text, origin));
      config.values_[std::string(setting->name)] = {*text, file};
    }
  }
  for (const Setting& setting : settings) {
    const std::string variable = variableName(setting.name);
    const char* text = environment(variable.c_str());
    if (text == nullptr) continue;
    COLLA_TRY(checkValue(setting, text, variable));
    config.values_[std::string(setting.name)] = {text, variable};
  }
  for (const auto& [flag, text] : flags) {
    std::string name = flag;
    std::ranges::replace(name, '-', '_');
    const Setting* setting = find(settings, name);
    if (setting == nullptr) {
      return {StatusCode::kInvalidArgument,
              fmt::format("there is no setting {} (`colla settings` lists them)", flagName(name))};
    }
    COLLA_TRY(checkValue(*setting, text, flagName(name)));
    config.values_[name] = {text, flagName(name)};
  }
  return config;
}

const Config::Value& Config::at(std::string_view name, SettingType type) const {
  const Setting* setting = find(settings_, name);
  COLLA_CHECK(setting != nullptr && setting->type == type);
  return values_.find(name)->second;
}

Config Config::with(std::string_view name, std::string value, std::string origin) const {
  Config config = *this;
  const auto found = config.values_.find(name);
  COLLA_CHECK(found != config.values_.end());
  found->second = {std::move(value), std::move(origin)};
  return config;
}

std::string Config::text(std::string_view name) const { return at(name, kText).text; }

std::int64_t Config::integer(std::string_view name) const {
  return std::strtoll(at(name, kInteger).text.c_str(), nullptr, 10);
}

std::chrono::milliseconds Config::seconds(std::string_view name) const {
  // A day is as good as for ever, and keeps the arithmetic on time points far from overflow.
  constexpr double kLimit = 86400.0;
  const double value = std::strtod(at(name, kSeconds).text.c_str(), nullptr);
  return std::chrono::milliseconds(std::llround(std::min(value, kLimit) * 1000));
}

std::string Config::value(std::string_view name) const {
  const auto it = values_.find(name);
  COLLA_CHECK(it != values_.end());
  return it->second.text;
}

std::string Config::origin(std::string_view name) const {
  const auto it = values_.find(name);
  COLLA_CHECK(it != values_.end());
  return it->second.origin;
}

std::string Config::sharedText() const {
  std::string text;
  for (const Setting& setting : settings_) {
    if (!setting.sharedByJob) continue;
    text += fmt::format("{}={}\n", setting.name, values_.find(setting.name)->second.text);
  }
  return text;
}

}  // namespace colla
