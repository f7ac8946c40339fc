#include "data/sequence/proteins.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "data/file.h"
#include "data/sequence/parse.h"

namespace colla::data {
namespace {

std::vector<std::string> proteinFiles(const std::string& folder, Part part) {
  constexpr std::array<std::string_view, 4> kEnds = {".tsv", ".fasta", ".fa", ".faa"};
  return filesIn(folder, [&](const std::string& name) {
    const std::filesystem::path file(name);
    return std::ranges::find(kEnds, file.extension().string()) != kEnds.end() &&
           file.stem().string().find(toString(part)) != std::string::npos;
  });
}

Status parseAll(const std::vector<std::string>& files, Share share, LabelledSequences& sequences) {
  for (const std::string& file : files) {
    COLLA_TRY_ASSIGN(const auto bytes, readFile(file));
    COLLA_TRY(parseSequences(bytes, file, share, sequences));
  }
  return {};
}

struct Classes {
  std::vector<std::int64_t> ofLabel;  // For each of the labels.
  std::int64_t count = 0;
};

// Numbers stand for themselves; names are numbered in sorted order.
Classes classesOf(const LabelledSequences& mine, const std::vector<std::string>& others,
                  bool numbers) {
  std::map<std::string, std::int64_t> numbered;
  std::int64_t count = 0;
  for (const auto* labels : {&mine.labels, &others}) {
    for (const std::string& label : *labels) {
      const std::int64_t number = numbers ? std::stoll(label) : 0;
      numbered.emplace(label, number);
      count = std::max(count, number + 1);
    }
  }
  if (!numbers) {
    count = 0;
    for (auto& [label, number] : numbered) number = count++;
  }
  Classes classes{{}, count};
  for (const std::string& label : mine.labels) classes.ofLabel.push_back(numbered.at(label));
  return classes;
}

}  // namespace

bool looksLikeProteins(const std::string& folder) {
  return !proteinFiles(folder, Part::kTrain).empty() || !proteinFiles(folder, Part::kTest).empty();
}

Result<std::shared_ptr<const Dataset>> openProteins(const std::string& path, Part part,
                                                    const ReadOptions& options) {
  const bool whole = isFolder(path);
  const Part otherPart = part == Part::kTrain ? Part::kTest : Part::kTrain;
  const auto files = whole ? proteinFiles(path, part) : std::vector<std::string>{path};
  const auto otherFiles = whole ? proteinFiles(path, otherPart) : std::vector<std::string>();
  if (files.empty()) {
    return {StatusCode::kNotFound,
            fmt::format("there is no .tsv or .fasta file with \"{}\" in its name in {}; put one "
                        "there, or name a file",
                        toString(part), path)};
  }
  LabelledSequences mine(options.length);
  COLLA_TRY(parseAll(files, whole ? Share::kAll : shareOf(part), mine));
  LabelledSequences others(1);  // Only its labels are of interest.
  COLLA_TRY(parseAll(otherFiles, Share::kAll, others));
  if (mine.rows.size() == 0) {
    return {StatusCode::kNotFound,
            fmt::format("{}: fewer than five sequences leave none for a test part", path)};
  }
  const Classes classes = classesOf(mine, others.labels, mine.numbers && others.numbers);
  mine.rows.relabel(classes.ofLabel);
  return mine.rows.dataset(fmt::format("{} part of {}", toString(part), path), classes.count);
}

}  // namespace colla::data
