// The flags of a model, such as --hidden: kept as text, because a checkpoint holds them as text.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colla/status.h"

namespace colla::models {

struct Flag {
  std::string_view name;  // Without dashes.
  std::string_view fallback;
  std::string_view help;
  // Whether models with different values are different models: then a checkpoint of the one is
  // refused by the other.
  bool shapes = true;
};

// The value of each of a model's flags, by name.
using Values = std::map<std::string, std::string, std::less<>>;
Values defaults(std::span<const Flag> flags);

// "hidden=100": the same for equal values.
std::string toString(const Values& values);
// Without those whose flags do not shape the model: what a checkpoint holds.
std::string shapeText(std::span<const Flag> flags, const Values& values);

// kInvalidArgument, with flag and value, unless it is a whole number of at least `least`.
Result<std::int64_t> wholeNumber(const Values& values, std::string_view name, std::int64_t least);

// kInvalidArgument, with flag and value, unless it is a number from `least` to `most`.
Result<double> realNumber(const Values& values, std::string_view name, double least, double most);

// kInvalidArgument: the flag's value is none of `words`.
Status unknownWord(const Values& values, std::string_view name,
                   std::span<const std::string_view> words);
// The meaning of the flag's word; kInvalidArgument, with the words that there are, for another.
template <typename T>
Result<T> oneOf(const Values& values, std::string_view name,
                std::initializer_list<std::pair<std::string_view, T>> meanings) {
  std::vector<std::string_view> words;
  for (const auto& [word, meaning] : meanings) {
    if (values.find(name)->second == word) return meaning;
    words.push_back(word);
  }
  return unknownWord(values, name, words);
}

}  // namespace colla::models
