// What --help prints, for all commands and programs alike.
//
// CLI11 does the layout. Ours are one usage line, which is the last line of an app's description if
// that begins with the app's name; words for values (`--threads N`); and defaults at the end of a
// line, in brackets. Option::option_text() gives a value a word of its own: "DIR".
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace colla {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool isPositional) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// What the option takes, as a sentence has it: "a number", "train or test".
std::string valueText(const CLI::Option& option);

}  // namespace colla
