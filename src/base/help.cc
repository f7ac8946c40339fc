#include "base/help.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>
#include <utility>

namespace colla {
namespace {

// The description without its last line, and that line if it says how the command is called.
std::pair<std::string, std::string> splitUsage(const CLI::App& app) {
  std::string text = app.get_description();
  const auto end = text.rfind('\n');
  if (end == std::string::npos || !text.substr(end + 1).starts_with(app.get_name())) {
    return {text, ""};
  }
  std::string usage = text.substr(end + 1);
  text.resize(end);
  if (text.ends_with(':')) text.back() = '.';
  return {text, usage};
}

// CLI11's own words for a type and, after a colon, what is checked: "TEXT:{train,test}".
std::pair<std::string, std::string> typeOf(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const auto colon = name.find(':');
  if (colon == std::string::npos) return {name, ""};
  return {name.substr(0, colon), name.substr(colon + 1)};
}

// "train,test" of "{train,test}"; empty for other checks.
std::string membersOf(const std::string& check) {
  if (!check.starts_with('{') || !check.ends_with('}')) return "";
  return check.substr(1, check.size() - 2);
}

// The words after "a number": ", 1 or more" of "POSITIVE", " from 2 to 128" of "INT in [2 - 128]";
// empty for other checks.
std::string limitsOf(const std::string& type, const std::string& check) {
  if (check == "NONNEGATIVE") return ", 0 or more";
  if (check == "POSITIVE") return type == "FLOAT" ? " above 0" : ", 1 or more";
  constexpr std::string_view kRange = " in [";
  const auto range = check.find(kRange);
  if (range == std::string::npos || !check.ends_with(']')) return "";
  std::string limits = check.substr(range + kRange.size());
  limits.pop_back();
  return " from " + CLI::detail::find_and_replace(limits, " - ", " to ");
}

std::string wordOf(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  const auto [type, check] = typeOf(option);
  if (const std::string members = membersOf(check); !members.empty()) {
    return CLI::detail::find_and_replace(members, ",", "|");
  }
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "NUMBER";
  return "VALUE";
}

// Its value may be left out.
bool mayStandAlone(const CLI::Option& option) { return option.get_expected_min() == 0; }

}  // namespace

std::string valueText(const CLI::Option& option) {
  const auto [type, check] = typeOf(option);
  if (const std::string members = membersOf(check); !members.empty()) {
    const auto last = members.rfind(',');
    const std::string words = last == std::string::npos
                                  ? members
                                  : members.substr(0, last) + " or " + members.substr(last + 1);
    return CLI::detail::find_and_replace(words, ",", ", ");
  }
  const std::string limits = limitsOf(type, check);
  if (type == "INT") return "a whole number" + limits;
  if (type == "UINT") return "a whole number" + (limits.empty() ? ", 0 or more" : limits);
  if (type == "FLOAT") return "a number" + limits;
  return wordOf(option);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  const std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
  return CLI::detail::find_and_replace(help, "\n\n\n", "\n\n");
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return splitUsage(*app).first + "\n";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  const std::string usage = splitUsage(*app).second;
  if (!usage.empty()) return fmt::format("\nUsage: {}\n", usage);
  if (!app->get_subcommands({}).empty()) return fmt::format("\nUsage: {} COMMAND [flags]\n", name);
  return fmt::format("\nUsage: {} [flags]\n", name);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool isPositional) const {
  std::string left = make_option_name(option, isPositional);
  // A flag has no value, and the word for that of a positional is its name.
  if (option->get_expected_max() > 0 && option->get_type_size() > 0 && !isPositional) {
    const bool many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    const std::string word = wordOf(*option) + (many ? "..." : "");
    left += mayStandAlone(*option) && !many ? fmt::format(" [{}]", word) : " " + word;
  }
  std::stringstream out;
  CLI::detail::format_help(out, left, make_option_desc(option), get_column_width());
  return out.str();
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (!option->get_envname().empty()) text += fmt::format("; or {}", option->get_envname());
  if (!option->get_default_str().empty() && !mayStandAlone(*option))
    text += fmt::format(" ({})", option->get_default_str());
  if (option->get_required() && !option->get_positional()) text += " (required)";
  return text;
}

}  // namespace colla
