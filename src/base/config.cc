#include "base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/check.h"

namespace colla {
namespace {

using enum SettingType;

// Sorted by name (a test checks it).
constexpr std::array kSettings = {
    Setting{"algorithm", kText, "auto",
            "allreduce algorithm: auto, shared, flat, direct, halving, tree, ring (another order)",
            true},
    Setting{"collective_timeout", kSeconds, "300", "seconds that one collective may take", false},
    Setting{"cycle_us", kInteger, "0",
            "microseconds that the first named operation waits for others to travel with it",
            false},
    Setting{"fusion_mb", kInteger, "64",
            "MiB up to which named allreduces travel together; 0: each by itself", false},
    Setting{
        "hybrid", kText, "servers",
        "where hybrid's tables go: servers, or auto (to servers or by allreduce, chosen for each "
        "by the rows that the first batch reads)",
        true},
    Setting{"interface", kText, "",
            "network interface or address to listen on; by default the one that leads to the store",
            false},
    Setting{"keep_memory", kInteger, "1",
            "1: memory that a training step frees is kept for the next one; 0: as glibc likes it",
            false},
    Setting{"log", kText, "info", "debug, info, warn, error or off", false},
    Setting{"secret_file", kText, "",
            "file with the job's secret, needed between hosts without `colla run`", false},
    Setting{"server_threads", kInteger, "0",
            "threads of a parameter server; 0: cores / servers of its host, at most 8", false},
    Setting{"slices", kInteger, "0",
            "logical pieces of every global batch; 0: the number of workers at first start", true},
    Setting{"spin_us", kInteger, "-1",
            "microseconds to spin before a wait sleeps; -1: by ranks and cores of this host",
            false},
    Setting{"stall_shutdown", kSeconds, "0",
            "seconds after which an operation that some ranks have not come to ends all; 0: never",
            false},
    Setting{
        "stall_warning", kSeconds, "60",
        "seconds after which operations that some ranks have not come to are reported; 0: never",
        false},
    Setting{"start_timeout", kSeconds, "60", "seconds to wait for all processes at start", false},
    Setting{"tcp_connections", kInteger, "1", "TCP connections per pair of ranks, 1 to 16", true},
    Setting{"threads", kInteger, "0",
            "threads per worker; 0: cores / ranks of this host. Bits depend on it", true},
    Setting{"timeline", kText, "", "file for a trace of named operations, written by rank 0",
            false},
    Setting{"transport", kText, "auto",
            "auto (shm on one host, tcp between hosts), shm, tcp (encrypted), tcp-plain", true},
};

const Setting* find(std::string_view name) {
  const auto it = std::ranges::find(kSettings, name, &Setting::name);
  return it == kSettings.end() ? nullptr : &*it;
}

template <typename T>
bool parses(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool fits(SettingType type, std::string_view text) {
  switch (type) {
    case kText:
      return true;
    case kInteger:
      return parses<std::int64_t>(text);
    case kSeconds:
      return parses<double>(text) && std::strtod(std::string(text).c_str(), nullptr) >= 0;
  }
  return false;
}

std::string_view wanted(SettingType type) {
  switch (type) {
    case kText:
      return "text";
    case kInteger:
      return "a whole number";
    case kSeconds:
      return "a number of seconds";
  }
  return "";
}

Status checkValue(const Setting& setting, std::string_view text, std::string_view origin) {
  if (fits(setting.type, text)) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is \"{}\", but takes {}", origin, text, wanted(setting.type))};
}

// A TOML scalar as the text that a flag would have had.
std::string tomlText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  return "a value that is no text or number";
}

}  // namespace

std::span<const Setting> settings() { return kSettings; }

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

Result<Config> Config::load(const std::map<std::string, std::string>& flags,
                            const std::string& file, const Environment& environment) {
  Config config;
  for (const Setting& setting : kSettings) {
    config.values_[std::string(setting.name)] = {std::string(setting.fallback), "default"};
  }
  // The weakest place first, so that stronger ones overwrite it.
  if (!file.empty()) {
    toml::table table;
    try {
      table = toml::parse_file(file);
    } catch (const toml::parse_error& error) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} line {}: {}", file, error.source().begin.line, error.description())};
    }
    for (const auto& [key, node] : table) {
      const Setting* setting = find(key.str());
      if (setting == nullptr) {
        return {StatusCode::kInvalidArgument,
                fmt::format("{} line {}: there is no setting \"{}\" (`colla settings` lists them)",
                            file, node.source().begin.line, key.str())};
      }
      const std::string origin = fmt::format("{} in {}", setting->name, file);
      const std::string text = tomlText(node);
      COLLA_TRY(checkValue(*setting, text, origin));
      config.values_[std::string(setting->name)] = {text, file};
    }
  }
  for (const Setting& setting : kSettings) {
    const std::string variable = variableName(setting.name);
    const char* text = environment(variable.c_str());
    if (text == nullptr) continue;
    COLLA_TRY(checkValue(setting, text, variable));
    config.values_[std::string(setting.name)] = {text, variable};
  }
  for (const auto& [flag, text] : flags) {
    std::string name = flag;
    std::ranges::replace(name, '-', '_');
    const Setting* setting = find(name);
    if (setting == nullptr) {
      return {StatusCode::kInvalidArgument,
              fmt::format("there is no setting {} (`colla settings` lists them)", flagName(name))};
    }
    COLLA_TRY(checkValue(*setting, text, flagName(name)));
    config.values_[name] = {text, flagName(name)};
  }
  return config;
}

Result<Config> Config::fromEnvironment(const std::map<std::string, std::string>& flags) {
  const char* file = std::getenv("COLLA_CONFIG");
  return load(flags, file == nullptr ? "" : file,
              [](const char* name) { return std::getenv(name); });
}

const Config::Value& Config::at(std::string_view name, SettingType type) const {
  const Setting* setting = find(name);
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
  for (const Setting& setting : kSettings) {
    if (!setting.sharedByJob) continue;
    text += fmt::format("{}={}\n", setting.name, values_.find(setting.name)->second.text);
  }
  return text;
}

}  // namespace colla
