// What programs and commands have in common in reading their command line with CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "colla/status.h"

namespace colla {

using Arguments = std::vector<std::string>;

constexpr int kExitUsage = 2;

// Lets SIGINT end this process even if it was started with the signal ignored, as the background
// jobs of a script are: a `kill -INT` means this process. To be called first in main().
void obeyInterrupt();

// "colla run: message" on standard error; returns kExitUsage.
int usageError(std::string_view command, std::string_view message);

// A flag as CLI11 knows it: dashes for underscores in its name, "--np" for "-np".
std::string normalized(std::string_view flag);

// Splits `arguments` at the first word that is neither a flag of `app` nor a flag's value, or at
// "--": what comes after is left as it is, and returned.
Arguments takeCommand(const CLI::App& app, Arguments& arguments);

// Parses `arguments` into what `app` is bound to. An exit code if the command ends here: after
// --help, or after a usage error.
std::optional<int> parse(CLI::App& app, const Arguments& arguments);

// --json [FILE], the same in every command: "-" for standard output, where no FILE follows it.
CLI::Option* addJsonFlag(CLI::App& app, std::string& file, const std::string& help);
// What a command found, as JSON, where --json says; nothing without that flag.
Status writeJson(const std::string& file, std::string_view text);

// A flag for every setting of a table, and --config for the TOML file.
class SettingFlags {
 public:
  // `app` and `settings` must outlive it.
  SettingFlags(CLI::App& app, std::span<const Setting> settings);
  // After parse(): flags, environment and file.
  Result<Config> load() const;

 private:
  CLI::App& app_;
  std::span<const Setting> settings_;
  std::map<std::string, std::string> values_;
  std::string file_;
};

}  // namespace colla
