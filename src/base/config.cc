#include "base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <vector>

#include "base/check.h"

namespace colla {
namespace {

using enum SettingType;

constexpr std::int64_t kMinute = 60'000'000;  // In microseconds.

// Sorted by name (a test checks it).
constexpr std::array kSettings = {
    Setting{"algorithm", kText, "auto",
            "allreduce algorithm: auto, shared, flat, direct, halving, tree, ring (another order)",
            true, "auto shared flat direct halving tree ring"},
    Setting{"collective_timeout", kSeconds, "300", "seconds that one collective may take", false},
    Setting{"cycle_us", kInteger, "0",
            "microseconds that the first named operation waits for others to travel with it", false,
            "", 0, kMinute},
    Setting{"fusion_mb", kInteger, "64",
            "MiB up to which named allreduces travel together; 0: each by itself", false, "", 0,
            65536},
    Setting{
        "hybrid", kText, "servers",
        "where hybrid's tables go: servers, or auto (to servers or by allreduce, chosen for each "
        "by the rows that the first batch reads)",
        true, "servers auto"},
    Setting{"interface", kText, "",
            "network interface or address to listen on; by default the one that leads to the store",
            false},
    Setting{"keep_memory", kInteger, "1",
            "1: memory that a training step frees is kept for the next one; 0: as glibc likes it",
            false, "", 0, 1},
    Setting{"log", kText, "info", "debug, info, warn, error or off", false,
            "debug info warn error off"},
    Setting{
        "metrics_address", kText, "127.0.0.1",
        "address that metrics are served at; one that is not a loopback address needs the token",
        false},
    Setting{"metrics_port", kInteger, "-1",
            "port that Prometheus can read the job's metrics from; 0: any free one; -1: none",
            false, "", -1, 65535},
    Setting{"metrics_token_file", kText, "",
            "file with the token that readers of metrics need, made if it is missing; by default "
            "~/.local/state/colla/metrics-token",
            false},
    Setting{"secret_file", kText, "",
            "file with the job's secret, needed between hosts without `colla run`", false},
    Setting{"server_threads", kInteger, "0",
            "threads of a parameter server; 0: cores / servers of its host, at most 8", false, "",
            0, 4096},
    Setting{"slices", kInteger, "0",
            "logical pieces of every global batch; 0: the number of workers at first start", true,
            "", 0, 1'000'000},
    Setting{"spin_us", kInteger, "-1",
            "microseconds to spin before a wait sleeps; -1: by ranks and cores of this host", false,
            "", -1, kMinute},
    Setting{"stall_shutdown", kSeconds, "0",
            "seconds after which an operation that some ranks have not come to ends all; 0: never",
            false},
    Setting{
        "stall_warning", kSeconds, "60",
        "seconds after which operations that some ranks have not come to are reported; 0: never",
        false},
    Setting{"start_timeout", kSeconds, "60", "seconds to wait for all processes at start", false},
    Setting{"tcp_connections", kInteger, "1", "TCP connections per pair of ranks, 1 to 16", true,
            "", 1, 16},
    Setting{"threads", kInteger, "0",
            "threads per worker; 0: cores / ranks of this host. Bits depend on it", true, "", 0,
            4096},
    Setting{"timeline", kText, "", "file for a trace of named operations, written by rank 0",
            false},
    Setting{"transport", kText, "auto",
            "auto (shm on one host, tcp between hosts), shm, tcp (encrypted), tcp-plain", true,
            "auto shm tcp tcp-plain"},
};

const Setting* find(std::string_view name) {
  const auto it = std::ranges::find(kSettings, name, &Setting::name);
  return it == kSettings.end() ? nullptr : &*it;
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
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is \"{}\", but takes {}", origin, text, wanted(setting))};
}

// toml++ 3.3 runs into undefined behaviour at some letters beyond ASCII. A file that can't be
// opened passes: toml++ reports it.
Status checkAscii(const std::string& file) {
  std::ifstream in(file);
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
    COLLA_TRY(checkAscii(file));
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
