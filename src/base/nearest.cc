#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>

namespace colla {
namespace {

std::string lettersOf(std::string_view word) {
  std::string letters(word);
  std::erase_if(letters, [](char c) { return c == '-' || c == '_'; });
  return letters;
}

// How many letters have to be added, taken away, replaced or swapped with their neighbour.
std::size_t editsBetween(std::string_view a, std::string_view b) {
  // Row i: from the first i letters of `a` to the first 0, 1, 2, … of `b`.
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
      }
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string didYouMean(std::string_view word, const std::vector<std::string>& words) {
  constexpr std::size_t kShortestBeginning = 3;
  const std::string typed = lettersOf(word);
  std::size_t fewest = std::max<std::size_t>(1, typed.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : words) {
    const std::string letters = lettersOf(candidate);
    const bool begun = typed.size() >= kShortestBeginning && letters.starts_with(typed);
    const std::size_t edits = begun ? std::min<std::size_t>(1, letters.size() - typed.size())
                                    : editsBetween(typed, letters);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = candidate;
  }
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

}  // namespace colla
