#include "data/image/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/image/decode.h"
#include "data/image/labelled_images.h"
#include "data/split.h"

namespace colla::data {
namespace {

std::vector<std::string> imagesIn(const std::filesystem::path& folder) {
  return namesIn(folder, [](const std::filesystem::directory_entry& entry) {
    std::error_code ignored;
    return hasImageName(entry.path().filename().string()) && entry.is_regular_file(ignored);
  });
}
std::vector<std::string> foldersIn(const std::filesystem::path& folder) {
  return namesIn(folder, [](const std::filesystem::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored) && !entry.path().filename().string().starts_with('.');
  });
}

// The folder with the classes of a part; both parts have the same one where it has to be split.
struct Place {
  std::filesystem::path root;
  Share share = Share::kAll;
};
std::filesystem::path rootOf(const std::filesystem::path& folder, Part part) {
  if (part == Part::kTrain) return folder / "train";
  return folder / (isFolder(folder / "test") ? "test" : "val");
}
Place placeOf(const std::filesystem::path& folder, Part part) {
  const bool inParts =
      isFolder(rootOf(folder, Part::kTrain)) || isFolder(rootOf(folder, Part::kTest));
  if (!inParts) return {folder, shareOf(part)};
  return {rootOf(folder, part), Share::kAll};
}

struct LabelledFile {
  std::string file;
  std::int64_t label = 0;
};

class FolderImages : public ImageSource {
 public:
  FolderImages(std::filesystem::path root, std::vector<std::string> classes,
               std::vector<LabelledFile> entries)
      : root_(std::move(root)), classes_(std::move(classes)), entries_(std::move(entries)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(entries_.size()); }
  std::int64_t classes() const override { return static_cast<std::int64_t>(classes_.size()); }
  Result<LabelledImage> read(std::int64_t index) const override {
    const auto& [file, label] = entries_[index];
    const std::string path = (root_ / classes_[label] / file).string();
    COLLA_TRY_ASSIGN(const auto bytes, readFile(path));
    COLLA_TRY_ASSIGN(Image image, decodeImage(bytes, path));
    return LabelledImage{std::move(image), label};
  }

 private:
  std::filesystem::path root_;
  std::vector<std::string> classes_;
  std::vector<LabelledFile> entries_;
};

}  // namespace

bool looksLikeImages(const std::string& folder) {
  for (const Part part : {Part::kTrain, Part::kTest}) {
    const auto root = placeOf(folder, part).root;
    for (const std::string& name : foldersIn(root)) {
      if (!imagesIn(root / name).empty()) return true;
    }
  }
  return false;
}

Result<std::shared_ptr<const Dataset>> openImages(const std::string& folder, Part part,
                                                  const ReadOptions& options) {
  const auto [root, share] = placeOf(folder, part);
  std::vector<std::string> classes = foldersIn(placeOf(folder, Part::kTrain).root);
  if (classes.empty()) classes = foldersIn(root);  // A test part alone.
  std::vector<LabelledFile> entries;
  for (const std::string& name : foldersIn(root)) {
    const auto files = imagesIn(root / name);
    const auto place = std::ranges::find(classes, name);
    if (place == classes.end()) {
      if (files.empty()) continue;
      return {StatusCode::kIo, fmt::format("{}: the training part has no class of that name",
                                           (root / name).string())};
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (!takes(share, static_cast<std::int64_t>(i))) continue;
      const auto file = root / name / files[i];
      std::error_code ignored;
      if (std::filesystem::file_size(file, ignored) == 0 && !ignored) {
        return {StatusCode::kIo, fmt::format("{}: the file is empty", file.string())};
      }
      entries.push_back({files[i], place - classes.begin()});
    }
  }
  if (entries.empty()) {
    return {StatusCode::kNotFound,
            fmt::format("there are no images (.jpg, .jpeg, .png) of the {} part in folders of {}; "
                        "each class is to be a folder",
                        toString(part), root.string())};
  }
  return labelledImages(
      fmt::format("{} part of {}", toString(part), folder),
      std::make_shared<FolderImages>(root, std::move(classes), std::move(entries)), part, options);
}

}  // namespace colla::data
