#include "data/synthetic/open.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "data/read_options.h"
#include "data/sequence/sequence_dataset.h"
#include "data/synthetic/synthetic.h"
#include "data/text/text_dataset.h"

namespace colla::data {
namespace {

std::optional<std::int64_t> parseCount(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

Status wrongSize(std::string_view name, std::string_view size, std::string_view wanted) {
  return {StatusCode::kInvalidArgument,
          fmt::format("{}:{}: the size is to be {}", name, size, wanted)};
}

// Half of the machine's memory is the limit: the operating system would promise more, and end the
// process once it is used.
Status checkFits(std::string_view name, std::int64_t samples, std::int64_t sampleBytes) {
  const std::int64_t limit = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE) / 2;
  if (samples <= limit / sampleBytes) return {};
  return {StatusCode::kNoMemory,
          fmt::format("{} with {} samples of {} bytes does not fit into half of this machine's "
                      "memory ({} MiB); choose a smaller size",
                      name, samples, sampleBytes, limit >> 20)};
}

// The samples of `part` of a set whose size is a number of samples.
Result<std::int64_t> samplesOf(std::string_view name, std::string_view size,
                               std::int64_t defaultSize, Part part, std::int64_t sampleBytes) {
  const auto train = size.empty() ? defaultSize : parseCount(size);
  if (!train) return wrongSize(name, size, "a number of samples");
  COLLA_TRY(checkFits(name, *train, sampleBytes));
  return part == Part::kTrain ? *train : std::max<std::int64_t>(1, *train / 6);
}

struct TwoSizes {
  std::int64_t first = 0;  // Of the part.
  std::int64_t second = 0;
};

// "1000x500"; `limit` is for the second.
std::optional<TwoSizes> parseTwo(std::string_view text, Part part, std::int64_t limit) {
  const std::size_t cross = std::min(text.find('x'), text.size());
  const auto first = parseCount(text.substr(0, cross));
  const auto second = parseCount(text.substr(std::min(cross + 1, text.size())));
  if (!first || !second || *second > limit) return std::nullopt;
  return TwoSizes{part == Part::kTrain ? *first : std::max<std::int64_t>(1, *first / 6), *second};
}

}  // namespace

DatasetResult openSyntheticMnist(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:mnist", options, {.images = true}));
  COLLA_TRY_ASSIGN(const auto samples,
                   samplesOf("synthetic:mnist", size, 60'000, part, 28 * 28 + 8));
  return syntheticMnist(samples, part, kSyntheticSeed, options);
}

DatasetResult openSyntheticCifar10(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:cifar10", options, {.images = true}));
  COLLA_TRY_ASSIGN(const auto samples,
                   samplesOf("synthetic:cifar10", size, 50'000, part, 3 * 32 * 32 + 8));
  return syntheticCifar10(samples, part, kSyntheticSeed, options);
}

DatasetResult openSyntheticCifar100(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:cifar100", options, {.images = true}));
  COLLA_TRY_ASSIGN(const auto samples,
                   samplesOf("synthetic:cifar100", size, 50'000, part, 3 * 32 * 32 + 8));
  return syntheticCifar100(samples, part, kSyntheticSeed, options);
}

DatasetResult openSyntheticGpcr(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:gpcr", options, {.length = true}));
  const std::int64_t length = options.length > 0 ? options.length : kDefaultSequenceLength;
  // Twice: rows are gathered first.
  COLLA_TRY_ASSIGN(const auto samples,
                   samplesOf("synthetic:gpcr", size, 1'200, part, 2 * (length + 8)));
  return syntheticGpcr(samples, part, kSyntheticSeed, options);
}

DatasetResult openSyntheticCaptions(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:captions", options, {.images = true, .length = true}));
  // Nothing of it is kept, but an epoch's order is.
  COLLA_TRY_ASSIGN(const auto samples, samplesOf("synthetic:captions", size, 6'000, part, 8));
  return syntheticCaptions(samples, part, kSyntheticSeed, options);
}

DatasetResult openSyntheticLr(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:lr", options, {}));
  // A row of more than 4 GiB is a mistake, and its bytes are to be counted without overflow.
  const auto sizes = parseTwo(size.empty() ? "10000x10000" : size, part, std::int64_t{1} << 30);
  if (!sizes) return wrongSize("synthetic:lr", size, "SAMPLESxFEATURES, such as 1000x500");
  COLLA_TRY(checkFits("synthetic:lr", sizes->first, sizes->second * 4 + 8));
  return syntheticLr(sizes->first, sizes->second, part);
}

DatasetResult openSyntheticLibsvm(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:libsvm", options, {}));
  const auto sizes = parseTwo(size.empty() ? "10000x10000" : size, part, std::int64_t{1} << 30);
  if (!sizes) return wrongSize("synthetic:libsvm", size, "SAMPLESxFEATURES, such as 1000x500");
  constexpr std::int64_t kMostBytes = 48 * 8 + 16;
  COLLA_TRY(checkFits("synthetic:libsvm", sizes->first, kMostBytes));
  return syntheticLibsvm(sizes->first, sizes->second, part);
}

DatasetResult openSyntheticText(std::string_view size, Part part, const ReadOptions& options) {
  COLLA_TRY(checkOptions("synthetic:text", options, {.length = true}));
  std::string text(size.empty() ? "100000" : size);
  if (text.find('x') == std::string::npos) text += "x1000";
  const auto sizes = parseTwo(text, part, std::int64_t{1} << 30);
  constexpr std::int64_t kSmallest = 5;  // One word besides the special ones.
  if (!sizes || sizes->second < kSmallest) {
    return wrongSize("synthetic:text", size,
                     "WORDS or WORDSxVOCABULARY, such as 100000x1000, the vocabulary 5 or more");
  }
  COLLA_TRY(checkFits("synthetic:text", sizes->first, 4));
  const std::int64_t length = options.length > 0 ? options.length : kDefaultTextLength;
  const std::int64_t words =
      part == Part::kTest ? std::max(sizes->first, length + 1) : sizes->first;
  return syntheticText(words, sizes->second, part, kSyntheticSeed, options);
}

}  // namespace colla::data
