#include "data/image/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/image/decode.h"
#include "data/image/transform.h"
#include "data/indices.h"
#include "data/split.h"

namespace colla::data {
namespace {

constexpr int kChannels = 3;

// Sorted. What can't be read is as good as not there.
std::vector<std::string> namesIn(const std::filesystem::path& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), last; !error && entry != last;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (folders ? entry->is_directory(ignored) && !name.starts_with('.')
                : hasImageName(name) && entry->is_regular_file(ignored)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

// The folder with the classes of a part; both parts have the same one where it has to be split.
struct Place {
  std::filesystem::path root;
  Share share = Share::kAll;
};
std::filesystem::path rootOf(const std::filesystem::path& folder, Part part) {
  std::error_code ignored;
  if (part == Part::kTrain) return folder / "train";
  const bool test = std::filesystem::is_directory(folder / "test", ignored);
  return folder / (test ? "test" : "val");
}
Place placeOf(const std::filesystem::path& folder, Part part) {
  std::error_code ignored;
  const bool inParts = std::filesystem::is_directory(rootOf(folder, Part::kTrain), ignored) ||
                       std::filesystem::is_directory(rootOf(folder, Part::kTest), ignored);
  if (!inParts) return {folder, shareOf(part)};
  return {rootOf(folder, part), Share::kAll};
}

struct Entry {
  std::string file;
  std::int64_t label = 0;
};

class ImageFolder : public Dataset {
 public:
  ImageFolder(std::string title, std::filesystem::path root, std::vector<std::string> classes,
              std::vector<Entry> entries, const ImageTransform& transform)
      : title_(std::move(title)),
        root_(std::move(root)),
        classes_(std::move(classes)),
        entries_(std::move(entries)),
        transform_(transform) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(entries_.size()); }
  std::vector<Field> fields() const override {
    const auto [height, width] = transform_.output();
    return {{"image", DataType::kFloat32, {kChannels, height, width}},
            {"label", DataType::kInt64, {}}};
  }
  std::int64_t classes() const override { return static_cast<std::int64_t>(classes_.size()); }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override;
  std::string describe() const override {
    return fmt::format("{}: {}", title_, describeSamples(*this));
  }

 private:
  std::string title_;
  std::filesystem::path root_;
  std::vector<std::string> classes_;
  std::vector<Entry> entries_;
  ImageTransform transform_;
  mutable ArrayPool pool_;
};

Result<Image> readImage(const std::filesystem::path& path) {
  COLLA_TRY_ASSIGN(const auto bytes, readFile(path.string()));
  return decodeImage(bytes, path.string());
}

Result<Batch> ImageFolder::read(std::span<const std::int64_t> indices, Random& random) const {
  COLLA_TRY(checkIndices(title_, indices, size()));
  const auto [height, width] = transform_.output();
  const auto count = static_cast<std::int64_t>(indices.size());
  COLLA_TRY_ASSIGN(Array images,
                   pool_.allocate(DataType::kFloat32, {count, kChannels, height, width}));
  COLLA_TRY_ASSIGN(Array labels, pool_.allocate(DataType::kInt64, {count}));
  ImageTransform::Scratch scratch;
  float* result = images.as<float>().data();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& [file, label] = entries_[indices[i]];
    COLLA_TRY_ASSIGN(const Image image, readImage(root_ / classes_[label] / file));
    transform_.apply(image.view(), random, scratch, result);
    result += kChannels * height * width;
    labels.as<std::int64_t>()[i] = label;
  }
  return Batch{std::move(images), std::move(labels)};
}

}  // namespace

bool looksLikeImages(const std::string& folder) {
  for (const Part part : {Part::kTrain, Part::kTest}) {
    const auto root = placeOf(folder, part).root;
    for (const std::string& name : namesIn(root, true)) {
      if (!namesIn(root / name, false).empty()) return true;
    }
  }
  return false;
}

Result<std::shared_ptr<const Dataset>> openImages(const std::string& folder, Part part,
                                                  const ReadOptions& options) {
  const auto [root, share] = placeOf(folder, part);
  std::vector<std::string> classes = namesIn(placeOf(folder, Part::kTrain).root, true);
  if (classes.empty()) classes = namesIn(root, true);  // A test part alone.
  std::vector<Entry> entries;
  for (const std::string& name : namesIn(root, true)) {
    const auto files = namesIn(root / name, false);
    const auto place = std::ranges::find(classes, name);
    if (place == classes.end()) {
      if (files.empty()) continue;
      return {StatusCode::kIo, fmt::format("{}: the training part has no class of that name",
                                           (root / name).string())};
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (takes(share, static_cast<std::int64_t>(i))) {
        entries.push_back({files[i], place - classes.begin()});
      }
    }
  }
  if (entries.empty()) {
    return {StatusCode::kNotFound,
            fmt::format("there are no images (.jpg, .jpeg, .png) of the {} part in folders of {}; "
                        "each class is to be a folder",
                        toString(part), root.string())};
  }
  // Also shows early whether they can be read at all.
  const auto& [file, label] = entries.front();
  COLLA_TRY_ASSIGN(const Image first, readImage(root / classes[label] / file));
  const ImageSize size = options.height > 0 ? ImageSize{options.height, options.width} : first.size;
  const ImageTransform transform(size, options.augment && part == Part::kTrain);
  return std::shared_ptr<const Dataset>(
      std::make_shared<ImageFolder>(fmt::format("{} part of {}", toString(part), folder), root,
                                    std::move(classes), std::move(entries), transform));
}

}  // namespace colla::data
