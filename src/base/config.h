// Settings of a job, from three places in this order of strength: command-line flags, the
// environment (COLLA_NAME), a TOML file (`--config FILE` or COLLA_CONFIG).
//
// A table says which settings there are, with the default, the values and a line of help of each
// (job/settings.h has the one of a job). An unknown name is refused as a flag and in the file;
// among variables, which may be anybody's, Job::init() warns of it. A Config is immutable after
// load().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla {

enum class SettingType { kText, kInteger, kSeconds };

struct Setting {
  std::string_view name;  // As in TOML; the flag has dashes, the variable COLLA_ and capitals.
  SettingType type;
  std::string_view fallback;
  std::string_view help;
  // Every process of a job must have the same value: part of the configuration's hash.
  bool sharedByJob;
  std::string_view choices = "";  // kText: the words it takes, blanks between; empty: any text.
  // kInteger: the numbers it takes.
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

// "--spin-us" and "COLLA_SPIN_US" for "spin_us".
std::string flagName(std::string_view name);
std::string variableName(std::string_view name);

class Config {
 public:
  using Environment = std::function<const char*(const char* name)>;

  // Reads and checks all three places. `settings`, which outlives the result, is sorted by name.
  // `flags` maps names (dashes or underscores) to values; `file` may be empty. `environment` is
  // std::getenv outside of tests.
  static Result<Config> load(std::span<const Setting> settings,
                             const std::map<std::string, std::string>& flags,
                             const std::string& file, const Environment& environment);

  // The same with another value of one setting, which came from `origin`.
  Config with(std::string_view name, std::string value, std::string origin) const;

  std::span<const Setting> settings() const { return settings_; }

  // `name` must be in settings(), and its type must fit.
  std::string text(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::chrono::milliseconds seconds(std::string_view name) const;

  // As it was written, whatever its type.
  std::string value(std::string_view name) const;
  // Where the value came from: "--log", "COLLA_LOG", "colla.toml" or "default".
  std::string origin(std::string_view name) const;

  // The settings that every process of a job must share, as "name=value" lines, sorted: two
  // processes may talk only if theirs are equal.
  std::string sharedText() const;

 private:
  struct Value {
    std::string text;
    std::string origin;
  };
  const Value& at(std::string_view name, SettingType type) const;

  std::span<const Setting> settings_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace colla
