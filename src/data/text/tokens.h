// Cuts text into words.
#pragma once

#include <algorithm>
#include <string_view>

#include "data/text/words.h"

namespace colla::data {

namespace tokens_internal {
constexpr bool isSpace(char letter) { return letter == ' ' || (letter >= '\t' && letter <= '\r'); }
constexpr bool isMark(char letter) {
  return (letter > ' ' && letter < '0') || (letter > '9' && letter < 'A') ||
         (letter > 'Z' && letter < 'a') || (letter > 'z' && letter < 0x7f);
}
}  // namespace tokens_internal

// Calls `visit` with each word of `text`, in order: what stands between white space, where each
// mark (a punctuation letter of ASCII) before and behind a word is a word of its own. Those inside
// of it are not ("don't"), nor those of a special word ("<unk>").
template <typename Visit>
void forEachWord(std::string_view text, Visit visit) {
  using tokens_internal::isMark;
  using tokens_internal::isSpace;
  while (true) {
    const auto* begin = std::ranges::find_if_not(text, isSpace);
    const auto* end = std::find_if(begin, text.end(), isSpace);
    if (begin == end) return;
    std::string_view word(begin, end);
    text = std::string_view(end, text.end());
    if (std::ranges::find(kSpecialWords, word) != kSpecialWords.end()) {
      visit(word);
      continue;
    }
    while (!word.empty() && isMark(word.front())) {
      visit(word.substr(0, 1));
      word.remove_prefix(1);
    }
    std::size_t length = word.size();
    while (length > 0 && isMark(word[length - 1])) --length;
    if (length > 0) visit(word.substr(0, length));
    for (; length < word.size(); ++length) visit(word.substr(length, 1));
  }
}

}  // namespace colla::data
