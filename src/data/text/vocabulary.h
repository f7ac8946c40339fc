// Words and their numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "colla/status.h"

namespace colla::data {

// Lets maps of strings be searched with views of them.
struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name.
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

// Immutable after creation, safe to share between threads.
class Vocabulary {
 public:
  // From a file with one word per line, numbered from 0; the first four are <pad>, <s>, </s> and
  // <unk>. kIo, with the line, where they are not, a word comes twice, is empty or has a space.
  static Result<Vocabulary> load(const std::string& path);
  // The same from memory.
  static Result<Vocabulary> parse(std::span<const std::byte> file, std::string_view name);

  std::int64_t size() const { return static_cast<std::int64_t>(words_.size()); }
  // <unk>'s for a word that it does not have.
  std::int32_t number(std::string_view word) const;
  const std::string& word(std::int32_t number) const { return words_[number]; }
  const std::vector<std::string>& words() const { return words_; }  // By number.

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> numbers_;
};

// Writes a file that Vocabulary::load() reads: under another name first, so that it is there whole
// or not at all.
Status writeVocabulary(std::span<const std::string> words, const std::string& path);

// Counts words, and makes a vocabulary of the frequent ones. Not thread safe.
class WordCounter {
 public:
  // Words that look like the special ones do not count: every vocabulary has those.
  void add(std::string_view word);

  std::int64_t total() const { return total_; }
  std::int64_t different() const { return static_cast<std::int64_t>(counts_.size()); }

  struct Limits {
    std::int64_t words = 0;     // In all, the special ones included; 0: no limit.
    std::int64_t minCount = 1;  // Words that come less often are left out.
  };
  // The special words, then the others, the frequent ones first, and in the order of their bytes
  // where they are equally frequent.
  std::vector<std::string> vocabulary(const Limits& limits) const;

 private:
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> counts_;
  std::int64_t total_ = 0;
};

}  // namespace colla::data
