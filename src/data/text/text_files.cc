#include "data/text/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "data/file.h"
#include "data/text/line_file.h"
#include "data/text/text_dataset.h"
#include "data/text/tokens.h"
#include "data/text/words.h"

namespace colla::data {
namespace {

std::vector<std::string> textFiles(const std::string& folder, Part part) {
  return filesIn(folder, [&](const std::string& name) {
    const std::filesystem::path file(name);
    return file.extension() == ".txt" &&
           file.stem().string().find(toString(part)) != std::string::npos;
  });
}

Result<std::vector<std::string>> findFiles(const std::string& path, Part part) {
  if (!isFolder(path)) return std::vector<std::string>{path};
  auto files = textFiles(path, part);
  if (!files.empty()) return files;
  return {StatusCode::kNotFound,
          fmt::format("there is no .txt file with \"{}\" in its name in {}; put one there, or name "
                      "a file",
                      toString(part), path)};
}

Result<Vocabulary> findVocabulary(const std::string& path, const ReadOptions& options) {
  if (!options.vocabulary.empty()) return Vocabulary::load(options.vocabulary);
  const std::string file = (folderOf(path) / "vocab.txt").string();
  auto vocabulary = Vocabulary::load(file);
  if (vocabulary.ok() || vocabulary.status().code() != StatusCode::kNotFound) return vocabulary;
  // Not kNotFound: that would be taken for a missing part.
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{} has no vocabulary; make one with: colla data vocab {} --out {}",
                            path, path, file));
}

struct Numbered {
  std::vector<std::int32_t> words;
  std::int64_t unknown = 0;
};

Status checkNotEmpty(const LineFile& file, const std::string& path) {
  if (file.size() > 0) return {};
  return {StatusCode::kIo, fmt::format("{}: the file is empty", path)};
}

// Lines that begin in [begin, end) of the file's size, in tenths.
Status addFile(const std::string& path, const Vocabulary& vocabulary, std::int64_t begin,
               std::int64_t end, Numbered& text) {
  COLLA_TRY_ASSIGN(LineFile file, LineFile::open(path));
  COLLA_TRY(checkNotEmpty(file, path));
  const std::int64_t from = file.size() / 10 * begin;
  const std::int64_t to = end == 10 ? file.size() : file.size() / 10 * end;
  while (true) {
    COLLA_TRY_ASSIGN(const bool more, file.next());
    if (!more || file.position() >= to) return {};
    if (file.position() < from) continue;
    const std::size_t before = text.words.size();
    forEachWord(file.line(), [&](std::string_view word) {
      text.words.push_back(vocabulary.number(word));
      text.unknown += text.words.back() == kUnknownWord ? 1 : 0;
    });
    if (text.words.size() > before) text.words.push_back(kSentenceEnd);
  }
}

}  // namespace

bool looksLikeText(const std::string& folder) {
  return !textFiles(folder, Part::kTrain).empty() || !textFiles(folder, Part::kTest).empty();
}

Result<std::shared_ptr<const Dataset>> openText(const std::string& path, Part part,
                                                const ReadOptions& options) {
  COLLA_TRY_ASSIGN(const auto files, findFiles(path, part));
  COLLA_TRY_ASSIGN(const Vocabulary vocabulary, findVocabulary(path, options));
  const bool one = !isFolder(path);
  Numbered text;
  for (const std::string& file : files) {
    const std::int64_t begin = one && part == Part::kTest ? 9 : 0;
    const std::int64_t end = one && part == Part::kTrain ? 9 : 10;
    COLLA_TRY(addFile(file, vocabulary, begin, end, text));
  }
  // A text in few lines, or in one, has none that begin so late.
  const std::int64_t length = options.length == 0 ? kDefaultTextLength : options.length;
  if (one && part == Part::kTest && std::ssize(text.words) <= length) {
    return {StatusCode::kNotFound,
            fmt::format(
                "{}: the lines that begin in its last tenth have {} words, and one sample "
                "takes {} and the word after them; a folder with train.txt and test.txt has both",
                path, text.words.size(), length)};
  }
  const double words = std::max<double>(1, static_cast<double>(text.words.size()));
  std::string title =
      fmt::format("{} part of {} ({:.1f} % of its words are not in the vocabulary)", toString(part),
                  path, 100 * static_cast<double>(text.unknown) / words);
  return textDataset(std::move(title), std::move(text.words), vocabulary.size(), options.length);
}

Status countWords(const std::string& path, WordCounter& counter, const TextProgress& progress) {
  COLLA_TRY_ASSIGN(const auto files, findFiles(path, Part::kTrain));
  std::int64_t all = 0;
  std::vector<LineFile> open;
  for (const std::string& file : files) {
    COLLA_TRY_ASSIGN(LineFile opened, LineFile::open(file));
    COLLA_TRY(checkNotEmpty(opened, file));
    all += opened.size();
    open.push_back(std::move(opened));
  }
  constexpr std::int64_t kLines = 10'000;
  std::int64_t before = 0;
  for (LineFile& file : open) {
    while (true) {
      COLLA_TRY_ASSIGN(const bool more, file.next());
      if (!more) break;
      forEachWord(file.line(), [&counter](std::string_view word) { counter.add(word); });
      if (progress && file.number() % kLines == 0) progress(before + file.position(), all);
    }
    before += file.size();
  }
  return {};
}

}  // namespace colla::data
