#include "data/text/vocabulary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "data/file.h"
#include "data/lines.h"
#include "data/text/words.h"

namespace colla::data {

Result<Vocabulary> Vocabulary::load(const std::string& path) {
  COLLA_TRY_ASSIGN(const auto bytes, readFile(path));
  return parse(bytes, path);
}

Result<Vocabulary> Vocabulary::parse(std::span<const std::byte> file, std::string_view name) {
  Vocabulary vocabulary;
  Lines lines(file);
  const auto wrong = [&](std::string_view what) {
    return Status(StatusCode::kIo, fmt::format("{}:{}: {}", name, lines.number(), what));
  };
  while (lines.next()) {
    const std::string_view word = lines.line();
    const std::size_t number = vocabulary.words_.size();
    if (number < kSpecialWords.size() && word != kSpecialWords[number]) {
      return wrong(fmt::format("is to be {}; a vocabulary begins with {}, one per line",
                               kSpecialWords[number], fmt::join(kSpecialWords, ", ")));
    }
    if (word.empty()) return wrong("an empty line; there is to be a word in each");
    if (word.find_first_of(" \t\v\f\r") != std::string_view::npos) {
      return wrong("white space in a word; there is to be one word per line");
    }
    if (number == std::numeric_limits<std::int32_t>::max()) return wrong("too many words");
    const auto [place, isNew] =
        vocabulary.numbers_.try_emplace(std::string(word), static_cast<std::int32_t>(number));
    if (!isNew) {
      return wrong(fmt::format("\"{}\" stands in line {} already", word, place->second + 1));
    }
    vocabulary.words_.emplace_back(word);
  }
  if (vocabulary.words_.size() < kSpecialWords.size()) {
    return Status(StatusCode::kIo, fmt::format("{}: is to begin with {}, one per line", name,
                                               fmt::join(kSpecialWords, ", ")));
  }
  return vocabulary;
}

std::int32_t Vocabulary::number(std::string_view word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? kUnknownWord : found->second;
}

void WordCounter::add(std::string_view word) {
  if (std::ranges::find(kSpecialWords, word) != kSpecialWords.end()) return;
  ++total_;
  if (const auto found = counts_.find(word); found != counts_.end()) {
    ++found->second;
  } else {
    counts_.emplace(word, 1);
  }
}

std::vector<std::string> WordCounter::vocabulary(const Limits& limits) const {
  std::vector<std::pair<std::int64_t, std::string_view>> words;
  for (const auto& [word, count] : counts_) {
    if (count >= limits.minCount) words.emplace_back(-count, word);
  }
  std::ranges::sort(words);
  std::vector<std::string> result(kSpecialWords.begin(), kSpecialWords.end());
  for (const auto& [count, word] : words) {
    if (limits.words > 0 && static_cast<std::int64_t>(result.size()) >= limits.words) break;
    result.emplace_back(word);
  }
  return result;
}

}  // namespace colla::data
