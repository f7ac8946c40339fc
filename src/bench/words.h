// Lists of words on a command line.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace colla::bench {

// A word that `parse` accepts; its message is the user's.
template <typename Parse>
CLI::Validator accepted(Parse parse) {
  return CLI::Validator(
      [parse](const std::string& word) {
        const auto result = parse(word);
        return result.ok() ? std::string() : std::string(result.status().message());
      },
      "");
}

// Each word once, in the order of their first appearance.
template <typename Word>
std::vector<Word> distinct(const std::vector<Word>& words) {
  std::vector<Word> kept;
  for (const Word& word : words) {
    if (std::ranges::find(kept, word) == kept.end()) kept.push_back(word);
  }
  return kept;
}

}  // namespace colla::bench
