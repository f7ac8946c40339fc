#include "models/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "base/check.h"

namespace colla::models {
namespace {

// More is a mistake, and would only be noticed when there is no memory for it.
constexpr std::int64_t kMost = 1'000'000'000;

}  // namespace

Values defaults(std::span<const Flag> flags) {
  Values values;
  for (const Flag& flag : flags) values.emplace(flag.name, flag.fallback);
  return values;
}

std::string toString(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

std::string shapeText(std::span<const Flag> flags, const Values& values) {
  Values kept;
  for (const Flag& flag : flags) {
    if (flag.shapes) kept.insert(*values.find(flag.name));
  }
  return toString(kept);
}

Result<std::int64_t> wholeNumber(const Values& values, std::string_view name, std::int64_t least) {
  const auto found = values.find(name);
  COLLA_CHECK(found != values.end());
  const std::string& text = found->second;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least &&
      number <= kMost) {
    return number;
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("--{} is \"{}\", but takes a whole number from {} to {}", name, text, least,
                      kMost)};
}

Result<double> realNumber(const Values& values, std::string_view name, double least, double most) {
  const auto found = values.find(name);
  COLLA_CHECK(found != values.end());
  const std::string& text = found->second;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least &&
      number <= most) {
    return number;
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("--{} is \"{}\", but takes a number from {} to {}", name, text, least, most)};
}

Status unknownWord(const Values& values, std::string_view name,
                   std::span<const std::string_view> words) {
  const auto found = values.find(name);
  COLLA_CHECK(found != values.end());
  return {StatusCode::kInvalidArgument,
          fmt::format("--{} is \"{}\", but takes {}", name, found->second, fmt::join(words, ", "))};
}

}  // namespace colla::models
