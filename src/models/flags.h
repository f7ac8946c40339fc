// The flags of a model, such as --hidden: kept as text, because a checkpoint holds them as text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::models {

struct Flag {
  std::string_view name;  // Without dashes.
  std::string_view fallback;
  std::string_view help;
};

// The value of each of a model's flags, by name.
using Values = std::map<std::string, std::string, std::less<>>;
Values defaults(std::span<const Flag> flags);

// "hidden=100": the same for equal values.
std::string toString(const Values& values);

// kInvalidArgument, with flag and value, unless it is a whole number of at least `least`.
Result<std::int64_t> wholeNumber(const Values& values, std::string_view name, std::int64_t least);

}  // namespace colla::models
