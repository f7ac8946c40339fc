#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "colla/dataset.h"
#include "data/mnist.h"
#include "data/synthetic.h"

namespace colla {
namespace {

using DatasetResult = Result<std::shared_ptr<const Dataset>>;

// How a data set is named: "NAME" or "NAME:ARGUMENT". A new reader is one more row.
struct Kind {
  std::string_view name;
  std::string_view help;
  DatasetResult (*open)(std::string_view argument, Part part, const ReadOptions& options);
  // For folders given without a name; null where a folder can't be recognised.
  bool (*recognises)(const std::string& folder);
};

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

// As MNIST has it: one sample to test with for six to train with.
std::int64_t samplesIn(Part part, std::int64_t train) {
  return part == Part::kTrain ? train : std::max<std::int64_t>(1, train / 6);
}

DatasetResult openSyntheticMnist(std::string_view size, Part part, const ReadOptions& /*options*/) {
  const auto samples = size.empty() ? 60'000 : parseCount(size);
  if (!samples) return wrongSize("synthetic:mnist", size, "a number of samples");
  COLLA_TRY(checkFits("synthetic:mnist", *samples, 28 * 28 + 8));
  return data::syntheticMnist(samplesIn(part, *samples), part);
}

DatasetResult openSyntheticLr(std::string_view size, Part part, const ReadOptions& /*options*/) {
  const std::string_view text = size.empty() ? "10000x10000" : size;
  const std::size_t cross = std::min(text.find('x'), text.size());
  const auto samples = parseCount(text.substr(0, cross));
  const auto features = parseCount(text.substr(std::min(cross + 1, text.size())));
  // A row of more than 4 GiB is a mistake, and its bytes are to be counted without overflow.
  if (!samples || !features || *features > std::int64_t{1} << 30) {
    return wrongSize("synthetic:lr", size, "SAMPLESxFEATURES, such as 1000x500");
  }
  COLLA_TRY(checkFits("synthetic:lr", *samples, *features * 4 + 8));
  return data::syntheticLr(samplesIn(part, *samples), *features, part);
}

DatasetResult openMnistFolder(std::string_view folder, Part part, const ReadOptions& /*options*/) {
  return data::openMnist(std::string(folder), part);
}

constexpr std::array kKinds = {
    Kind{"mnist", "mnist:FOLDER or the FOLDER alone (MNIST, Fashion-MNIST)", openMnistFolder,
         data::looksLikeMnist},
    Kind{"synthetic:lr", "synthetic:lr[:SAMPLESxFEATURES]", openSyntheticLr, nullptr},
    Kind{"synthetic:mnist", "synthetic:mnist[:SAMPLES]", openSyntheticMnist, nullptr},
};

std::string whatThereIs() {
  std::vector<std::string_view> lines;
  for (const Kind& kind : kKinds) lines.push_back(kind.help);
  return fmt::format("there are {}", fmt::join(lines, ", "));
}

}  // namespace

std::string_view toString(Part part) { return part == Part::kTrain ? "train" : "test"; }

DatasetResult openDataset(std::string_view text, Part part, const ReadOptions& options) {
  for (const Kind& kind : kKinds) {
    if (text == kind.name) return kind.open("", part, options);
    if (text.starts_with(kind.name) && text[kind.name.size()] == ':') {
      return kind.open(text.substr(kind.name.size() + 1), part, options);
    }
  }
  const std::string folder(text);
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) {
    for (const Kind& kind : kKinds) {
      if (kind.recognises == nullptr || !kind.recognises(folder)) continue;
      return kind.open(text, part, options);
    }
    return {StatusCode::kNotFound,
            fmt::format("folder {} has no data set that Colla knows; {}", text, whatThereIs())};
  }
  return {StatusCode::kNotFound,
          fmt::format("\"{}\" is neither a data set nor a folder; {}", text, whatThereIs())};
}

std::string describeSamples(const Dataset& dataset) {
  std::vector<std::string> fields;
  for (const auto& [name, type, shape] : dataset.fields()) {
    std::vector<std::string> lengths;
    for (const std::int64_t length : shape) {
      lengths.push_back(length < 0 ? "?" : std::to_string(length));
    }
    fields.push_back(fmt::format("{} {}{}{}", name, toString(type), shape.empty() ? "" : " ",
                                 fmt::join(lengths, "x")));
  }
  std::string text = fmt::format("{} samples of {}", dataset.size(), fmt::join(fields, ", "));
  if (dataset.classes() > 0) text += fmt::format(" ({} classes)", dataset.classes());
  return text;
}

}  // namespace colla
