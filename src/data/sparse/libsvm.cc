#include "data/sparse/libsvm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "data/file.h"
#include "data/lines.h"

namespace colla::data {
namespace {

constexpr std::string_view kSpace = " \t";
constexpr std::int64_t kMaxFeature = std::numeric_limits<std::int32_t>::max();

// All of `text`, with a sign or without.
template <typename T>
std::optional<T> parseNumber(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A whole number, also when it is written as 1.0 or 1e0.
std::optional<std::int64_t> parseLabel(std::string_view text) {
  const auto value = parseNumber<double>(text);
  constexpr double kLimit = 1e15;  // Such numbers are exact.
  if (!value || !(std::abs(*value) <= kLimit) || *value != std::floor(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

// Takes the next word off `line`; empty at its end.
std::string_view takeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kSpace), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kSpace));
  line.remove_prefix(word.size());
  return word;
}

struct FeatureValue {
  std::int64_t feature = 0;  // From 1.
  float value = 0;
};

Result<FeatureValue> parseFeature(std::string_view word, std::int64_t previous) {
  const auto wrong = [&](std::string_view why) {
    return Status(StatusCode::kIo, fmt::format("\"{}\" {}", word.substr(0, 40), why));
  };
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos) return wrong("is not FEATURE:VALUE");
  const auto feature = parseNumber<std::int64_t>(word.substr(0, colon));
  const auto value = parseNumber<float>(word.substr(colon + 1));
  if (!feature) return wrong("does not begin with the number of a feature");
  if (*feature < 1 || *feature > kMaxFeature) {
    return wrong(fmt::format("is out of range; features are from 1 to {}", kMaxFeature));
  }
  if (*feature <= previous) {
    return wrong(
        fmt::format("comes behind feature {}; they are to be in ascending order", previous));
  }
  if (!value || !std::isfinite(*value)) return wrong("does not end with a number");
  return FeatureValue{*feature, *value};
}

Status parseLine(std::string_view line, std::int64_t number, bool taken, LibsvmSamples& samples) {
  const std::string_view first = takeWord(line);
  const auto label = parseLabel(first);
  if (!label) {
    return {StatusCode::kIo,
            fmt::format("\"{}\" is no label; labels are whole numbers", first.substr(0, 40))};
  }
  std::int64_t previous = 0;
  for (std::string_view word = takeWord(line); !word.empty(); word = takeWord(line)) {
    COLLA_TRY_ASSIGN(const FeatureValue entry, parseFeature(word, previous));
    previous = entry.feature;
    if (taken) samples.rows.add(static_cast<std::int32_t>(entry.feature - 1), entry.value);
  }
  if (taken) samples.rows.end(*label);
  samples.labels.try_emplace(*label, number);
  samples.features = std::max(samples.features, previous);
  return {};
}

std::vector<std::string> namesOf(const std::map<std::int64_t, std::int64_t>& labels) {
  std::vector<std::string> names;
  for (const auto& [label, line] : labels) names.push_back(std::to_string(label));
  return names;
}

// kIo for a label of `test` that `train` lacks: nothing could learn it.
Status checkLabels(const LibsvmSamples& train, const std::string& trainFile,
                   const LibsvmSamples& test, const std::string& testFile) {
  for (const auto& [label, line] : test.labels) {
    if (train.labels.contains(label)) continue;
    return {StatusCode::kIo,
            fmt::format("{}:{}: label {} does not occur in {}", testFile, line, label, trainFile)};
  }
  return {};
}

}  // namespace

Status parseLibsvm(std::span<const std::byte> file, std::string_view name, Share share,
                   LibsvmSamples& samples) {
  std::int64_t count = 0;
  for (Lines lines(file); lines.next();) {
    const std::string_view line = lines.line().substr(0, lines.line().find('#'));
    if (line.find_first_not_of(kSpace) == std::string_view::npos) continue;
    const Status status = parseLine(line, lines.number(), takes(share, count++), samples);
    if (!status.ok()) {
      return {StatusCode::kIo, fmt::format("{}:{}: {}", name, lines.number(), status.message())};
    }
  }
  if (count > 0) return {};
  return {StatusCode::kIo, fmt::format("{}: there are no samples in it", name)};
}

Result<std::shared_ptr<const Dataset>> openLibsvm(const std::string& file, Part part) {
  const std::string testFile = file + ".t";
  std::error_code ignored;
  const bool two = std::filesystem::exists(testFile, ignored);
  LibsvmSamples train;
  LibsvmSamples test;
  COLLA_TRY_ASSIGN(const auto bytes, readFile(file));
  if (two) {
    COLLA_TRY(parseLibsvm(bytes, file, Share::kAll, train));
    COLLA_TRY_ASSIGN(const auto testBytes, readFile(testFile));
    COLLA_TRY(parseLibsvm(testBytes, testFile, Share::kAll, test));
    COLLA_TRY(checkLabels(train, file, test, testFile));
  } else {
    COLLA_TRY(parseLibsvm(bytes, file, shareOf(part), part == Part::kTrain ? train : test));
  }
  train.labels.merge(test.labels);
  const auto& labels = train.labels;
  const std::int64_t features = std::max(train.features, test.features);
  if (labels.size() < 2) {
    return {StatusCode::kIo, fmt::format("{}: all labels are {}: there is nothing to tell apart",
                                         file, labels.begin()->first)};
  }
  SparseRows rows = std::move((part == Part::kTrain ? train : test).rows);
  if (rows.size() == 0) {
    return {StatusCode::kNotFound,
            fmt::format("{}: fewer than five samples leave none for a test part", file)};
  }
  for (std::int64_t& label : rows.labels) {
    label = std::distance(labels.begin(), labels.find(label));
  }
  return sparseDataset(fmt::format("{} part of {}", toString(part), file), std::move(rows),
                       std::max<std::int64_t>(features, 1), namesOf(labels));
}

}  // namespace colla::data
