#include "data/image/mnist.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/file.h"
#include "data/image/idx.h"
#include "data/image/image_dataset.h"

namespace colla::data {
namespace {

constexpr std::int64_t kClasses = 10;

std::string_view prefixOf(Part part) { return part == Part::kTrain ? "train" : "t10k"; }

// "images" has 3 dimensions, "labels" 1.
std::optional<std::string> findFile(const std::string& folder, Part part, std::string_view what,
                                    int dimensions) {
  for (const std::string_view end : {"", ".gz"}) {
    for (const char separator : {'-', '.'}) {
      const auto path =
          std::filesystem::path(folder) /
          fmt::format("{}-{}{}idx{}-ubyte{}", prefixOf(part), what, separator, dimensions, end);
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored)) return path.string();
    }
  }
  return std::nullopt;
}

struct NamedArray {
  std::string path;
  Array array;
};

Result<NamedArray> readPart(const std::string& folder, Part part, std::string_view what,
                            int dimensions) {
  const auto path = findFile(folder, part, what, dimensions);
  if (!path.has_value()) {
    // Half a part is damage, and not a part that is missing.
    const bool half = findFile(folder, part, "images", 3).has_value() ||
                      findFile(folder, part, "labels", 1).has_value();
    return {half ? StatusCode::kIo : StatusCode::kNotFound,
            fmt::format("there is no {}-{}-idx{}-ubyte, plain or .gz, in {}; put MNIST's four "
                        "files there, or name the folder that has them",
                        prefixOf(part), what, dimensions, folder)};
  }
  COLLA_TRY_ASSIGN(const auto bytes, readFile(*path));
  COLLA_TRY_ASSIGN(Array array, parseIdx(bytes, *path, dimensions));
  return NamedArray{*path, std::move(array)};
}

// Bytes as int64, each checked to be a class.
Result<Array> classesOf(const NamedArray& labels) {
  COLLA_TRY_ASSIGN(Array classes, Array::allocate(DataType::kInt64, labels.array.shape()));
  const auto from = labels.array.as<std::uint8_t>();
  const auto to = classes.as<std::int64_t>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] >= kClasses) {
      return {StatusCode::kIo, fmt::format("{}: record {} has label {}; labels are 0 to {}",
                                           labels.path, i, from[i], kClasses - 1)};
    }
    to[i] = from[i];
  }
  return classes;
}

}  // namespace

bool looksLikeMnist(const std::string& folder) {
  return findFile(folder, Part::kTrain, "images", 3).has_value() ||
         findFile(folder, Part::kTest, "images", 3).has_value();
}

Result<std::shared_ptr<const Dataset>> openMnist(const std::string& folder, Part part,
                                                 const ReadOptions& options) {
  COLLA_TRY_ASSIGN(const NamedArray images, readPart(folder, part, "images", 3));
  COLLA_TRY_ASSIGN(const NamedArray labels, readPart(folder, part, "labels", 1));
  if (images.array.rows() != labels.array.rows()) {
    return {StatusCode::kIo,
            fmt::format("{} has {} images, but {} has {} labels: they do not belong together",
                        images.path, images.array.rows(), labels.path, labels.array.rows())};
  }
  COLLA_TRY_ASSIGN(Array classes, classesOf(labels));
  const auto& shape = images.array.shape();
  // With its channel, as convolutions want it.
  const Array pixels = Array::view(images.array.owner(), images.array.data(), DataType::kUInt8,
                                   {shape[0], 1, shape[1], shape[2]});
  return imageDataset(fmt::format("{} part of {}", toString(part), folder), pixels, classes,
                      kClasses, part, options);
}

}  // namespace colla::data
