#include <fmt/format.h>

#include <cstdio>

#include "base/command_line.h"
#include "data/text/text_files.h"
#include "data/text/vocabulary.h"
#include "data_commands.h"
#include "percent_line.h"

namespace colla::cli {

int dataVocabCommand(const Arguments& arguments) {
  CLI::App app(
      "Numbers the words of a text, the frequent ones first:\n"
      "colla data vocab TEXT --out FILE [--words N] [--min-count C]",
      "colla data vocab");
  app.footer(
      "TEXT is a file, or a folder with .txt files that have \"train\" in their names. FILE gets "
      "one\n"
      "word per line; the first four are <pad>, <s>, </s> and <unk>. vocab.txt beside the text is\n"
      "found by itself in training.\n");
  std::string text;
  std::string out;
  data::WordCounter::Limits limits;
  app.add_option("TEXT", text, "file or folder")->required();
  app.add_option("--out", out, "file to write")->option_text("FILE")->required();
  app.add_option("--words", limits.words, "at most so many words, those four included; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--min-count", limits.minCount, "leave out words that come less often")
      ->check(CLI::PositiveNumber);
  if (const auto exitCode = parse(app, arguments)) return *exitCode;

  data::WordCounter counter;
  Status status;
  {
    PercentLine percent("counting words");
    status = data::countWords(
        text, counter, [&](std::int64_t done, std::int64_t all) { percent.update(done, all); });
  }
  if (status.ok() && counter.total() == 0) {
    status = Status(StatusCode::kIo, fmt::format("{} has no words", text));
  }
  const auto words = counter.vocabulary(limits);
  if (status.ok()) status = data::writeVocabulary(words, out);
  if (!status.ok()) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), status.message());
    return 1;
  }
  fmt::print("{}: {} words; the text has {}, of which {} are different\n", out, words.size(),
             counter.total(), counter.different());
  return 0;
}

}  // namespace colla::cli
