// A record of the binary version is its label, one byte (CIFAR-100: two, the coarse class and the
// fine one), and the planes of its pixels: 1024 red, 1024 green, 1024 blue. A Python batch is a
// dictionary with those planes as rows of an array "data", and the labels as a list.
#include "data/image/cifar.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/image/image.h"
#include "data/image/image_dataset.h"
#include "data/image/pickle.h"

namespace colla::data {
namespace {

constexpr std::int64_t kCifarSide = 32;
constexpr std::int64_t kImageBytes = kColourChannels * kCifarSide * kCifarSide;

struct Format {
  std::int64_t classes;
  std::int64_t labelBytes;
  std::string_view trainName;  // What files' names begin with.
  std::string_view testName;
  std::string_view labelsKey;
};
const Format& formatOf(Cifar which) {
  static constexpr Format k10{10, 1, "data_batch_", "test_batch", "labels"};
  static constexpr Format k100{100, 2, "train", "test", "fine_labels"};
  return which == Cifar::k10 ? k10 : k100;
}

// Images and labels of one file or of several.
struct Records {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
};

bool isFile(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// The files of `part`, in the order of their names; all of them end in `end`.
std::vector<std::string> filesOf(Cifar which, const std::string& folder, Part part,
                                 std::string_view end) {
  const std::string_view begin =
      part == Part::kTrain ? formatOf(which).trainName : formatOf(which).testName;
  const bool several = which == Cifar::k10 && part == Part::kTrain;
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), last; !error && entry != last;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin)) continue;
    const std::string_view rest = std::string_view(name).substr(begin.size());
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    if (rest.substr(dot) != end || (dot > 0) != several || !isFile(entry->path())) continue;
    files.push_back(entry->path().string());
  }
  std::ranges::sort(files);
  return files;
}

Status wrongLabel(std::string_view file, std::size_t record, std::int64_t label,
                  std::int64_t classes) {
  return {StatusCode::kIo, fmt::format("{}: record {} has label {}; labels are 0 to {}", file,
                                       record, label, classes - 1)};
}

Status addBinary(const Format& format, const std::string& file, std::span<const std::byte> bytes,
                 Records& records) {
  const std::int64_t recordBytes = format.labelBytes + kImageBytes;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0) return {StatusCode::kIo, fmt::format("{}: the file is empty", file)};
  if (size % recordBytes != 0) {
    return {StatusCode::kIo,
            fmt::format("{}: the file ends inside of record {}: {} bytes are no whole number of "
                        "records of {}; fetch the file again",
                        file, size / recordBytes, size, recordBytes)};
  }
  const auto* byte = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (std::int64_t i = 0; i < size / recordBytes; ++i, byte += recordBytes) {
    const std::int64_t label = byte[format.labelBytes - 1];
    if (label >= format.classes) return wrongLabel(file, i, label, format.classes);
    records.labels.push_back(label);
    records.pixels.insert(records.pixels.end(), byte + format.labelBytes, byte + recordBytes);
  }
  return {};
}

Status addPickled(const Format& format, const std::string& file, std::span<const std::byte> bytes,
                  Records& records) {
  const auto refuse = [&file](std::string why) {
    return Status(StatusCode::kIo, fmt::format("{}: {}", file, why));
  };
  COLLA_TRY_ASSIGN(const Pickle pickle, Pickle::parse(bytes, file));
  const PickleValue* const data = pickle.find("data");
  const PickleValue* const labels = pickle.find(format.labelsKey);
  if (data == nullptr || labels == nullptr) {
    return refuse(fmt::format("has no \"data\" and \"{}\": is it another file?", format.labelsKey));
  }
  const auto array = arrayOf(*data);
  if (!array.ok()) return refuse(fmt::format("\"data\" {}", array.status().message()));
  const auto count = static_cast<std::int64_t>(labels->items.size());
  if (array->shape != std::vector<std::int64_t>{count, kImageBytes} || count == 0) {
    return refuse(fmt::format("\"data\" is no array of {} rows of {} bytes, one for each of \"{}\"",
                              count, kImageBytes, format.labelsKey));
  }
  for (std::size_t i = 0; i < labels->items.size(); ++i) {
    const PickleValue& label = *labels->items[i];
    if (label.kind != PickleValue::Kind::kInteger || label.integer < 0 ||
        label.integer >= format.classes) {
      return wrongLabel(file, i, label.integer, format.classes);
    }
    records.labels.push_back(label.integer);
  }
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(array->bytes.data());
  records.pixels.insert(records.pixels.end(), pixels, pixels + array->bytes.size());
  return {};
}

}  // namespace

bool looksLikeCifar(Cifar which, const std::string& folder) {
  // Files named train and test could be anything.
  const std::filesystem::path path(folder);
  const bool named =
      which == Cifar::k10 || isFile(path / "fine_label_names.txt") || isFile(path / "meta");
  const auto has = [&](Part part) {
    return !filesOf(which, folder, part, ".bin").empty() ||
           !filesOf(which, folder, part, "").empty();
  };
  return named && (has(Part::kTrain) || has(Part::kTest));
}

Result<std::shared_ptr<const Dataset>> openCifar(Cifar which, const std::string& folder, Part part,
                                                 const ReadOptions& options) {
  const Format& format = formatOf(which);
  std::vector<std::string> files = filesOf(which, folder, part, ".bin");
  const bool binary = !files.empty();
  if (!binary) files = filesOf(which, folder, part, "");
  if (files.empty()) {
    const std::string name =
        part == Part::kTrain && which == Cifar::k10
            ? "data_batch_1"
            : std::string(part == Part::kTrain ? format.trainName : format.testName);
    return {StatusCode::kNotFound,
            fmt::format("there is neither {}.bin (binary version) nor {} (Python version) of "
                        "CIFAR-{} in {}; put them there, or name the folder that has them",
                        name, name, format.classes, folder)};
  }
  Records records;
  for (const std::string& file : files) {
    COLLA_TRY_ASSIGN(const auto bytes, readFile(file));
    COLLA_TRY(binary ? addBinary(format, file, bytes, records)
                     : addPickled(format, file, bytes, records));
  }
  const auto count = static_cast<std::int64_t>(records.labels.size());
  COLLA_TRY_ASSIGN(const Array images, Array::allocate(DataType::kUInt8, {count, kColourChannels,
                                                                          kCifarSide, kCifarSide}));
  COLLA_TRY_ASSIGN(const Array labels, Array::allocate(DataType::kInt64, {count}));
  std::ranges::copy(records.pixels, images.as<std::uint8_t>().begin());
  std::ranges::copy(records.labels, labels.as<std::int64_t>().begin());
  return imageDataset(fmt::format("{} part of {}", toString(part), folder), images, labels,
                      format.classes, part, options);
}

}  // namespace colla::data
