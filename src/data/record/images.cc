#include "data/record/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/image/decode.h"
#include "data/image/labelled_images.h"
#include "data/lines.h"
#include "data/record/captions.h"
#include "data/record/example.h"
#include "data/record/record_file.h"
#include "data/split.h"

namespace colla::data {
namespace {

// A model has an output for each class, so that a number of this size is none.
constexpr std::int64_t kMostClasses = 1'000'000;

std::vector<std::string> filesWith(const std::string& folder, std::string_view part) {
  return filesIn(folder, [&](const std::string& name) {
    const bool records =
        name.find(".tfrecord") != std::string::npos || name.find("-of-") != std::string::npos;
    return records && name.find(part) != std::string::npos;
  });
}

Result<std::vector<RecordFile>> openFiles(const std::string& path, Part part) {
  std::vector<std::string> names = {path};
  if (isFolder(path)) {
    names = filesWith(path, toString(part));
    if (names.empty() && part == Part::kTest) names = filesWith(path, "val");
  }
  std::vector<RecordFile> files;
  for (std::string& name : names) {
    COLLA_TRY_ASSIGN(RecordFile file, RecordFile::open(std::move(name)));
    files.push_back(std::move(file));
  }
  if (!files.empty()) return files;
  return {StatusCode::kNotFound,
          fmt::format("there is no file of the {} part in {}; names are to have \"{}\" and "
                      "\".tfrecord\" or \"-of-\" in them",
                      toString(part), path, toString(part))};
}

// Of the parsed record `index`, from 0 to classes - 1.
Result<std::int64_t> labelOf(const RecordFile& file, std::int64_t index, const Example& example,
                             std::int64_t classes) {
  const Feature* const feature = example.find(kLabelFeature);
  if (feature == nullptr || feature->integers.size() != 1) {
    return file.wrong(index, fmt::format("has no whole number {}", kLabelFeature));
  }
  const std::int64_t label = feature->integers.front();
  if (label >= 0 && label < classes) return label;
  return file.wrong(
      index, fmt::format("{} is {}; classes are from 0 to {}", kLabelFeature, label, classes - 1));
}

class RecordImages : public ImageSource {
 public:
  RecordImages(std::vector<RecordFile> files, Share share, std::int64_t classes)
      : files_(std::move(files)), classes_(classes) {
    for (const RecordFile& file : files_) {
      for (std::int64_t i = 0; i < file.size(); ++i) {
        if (takes(share, i)) places_.push_back({&file, i});
      }
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t classes() const override { return classes_; }
  Result<LabelledImage> read(std::int64_t index) const override {
    const auto& [file, record] = places_[index];
    COLLA_TRY_ASSIGN(const auto bytes, file->read(record));
    const auto example = Example::parse(bytes);
    if (!example.ok()) return file->wrong(record, example.status().message());
    COLLA_TRY_ASSIGN(const std::int64_t label, labelOf(*file, record, *example, classes_));
    auto image = decodeImage(std::as_bytes(std::span(example->text(kImageFeature))), kImageFeature);
    if (!image.ok()) return file->wrong(record, image.status().message());
    return LabelledImage{*std::move(image), label};
  }

 private:
  struct Place {
    const RecordFile* file;
    std::int64_t record;
  };
  const std::vector<RecordFile> files_;
  const std::int64_t classes_;
  std::vector<Place> places_;  // Of each sample.
};

Result<std::int64_t> classesNamed(const std::string& path) {
  COLLA_TRY_ASSIGN(const auto text, readFile(path));
  std::int64_t classes = 0;
  Lines lines(text);
  while (lines.next()) {
    const std::string_view line = lines.line();
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error != std::errc() || end == line.data() + line.size() || *end != ':' || number < 0 ||
        number >= kMostClasses) {
      return {StatusCode::kIo,
              fmt::format("{}:{}: is to be NUMBER:NAME, with a number from 0 to {}", path,
                          lines.number(), kMostClasses - 1)};
    }
    classes = std::max(classes, number + 1);
  }
  if (classes > 0) return classes;
  return {StatusCode::kIo, fmt::format("{}: the file is empty", path)};
}

// One more than the largest label; all are to be below `limit`.
Result<std::int64_t> classesFound(const std::vector<RecordFile>& files,
                                  std::int64_t limit = kMostClasses) {
  std::int64_t classes = 0;
  for (const RecordFile& file : files) {
    for (std::int64_t i = 0; i < file.size(); ++i) {
      COLLA_TRY_ASSIGN(const auto bytes, file.read(i));
      const auto example = Example::parse(bytes);
      if (!example.ok()) return file.wrong(i, example.status().message());
      COLLA_TRY_ASSIGN(const std::int64_t label, labelOf(file, i, *example, limit));
      classes = std::max(classes, label + 1);
    }
  }
  return classes;
}

// Both parts have the same ones. Where they are not named, the labels of `files` are among them.
Result<std::int64_t> classesOf(const std::string& path, Part part,
                               const std::vector<RecordFile>& files) {
  const auto named = classesNamed((folderOf(path) / "labels.txt").string());
  if (named.ok() || named.status().code() != StatusCode::kNotFound) return named;
  const auto train = openFiles(path, Part::kTrain);
  if (!train.ok() && train.status().code() != StatusCode::kNotFound) return train.status();
  if (train.ok()) {
    COLLA_TRY_ASSIGN(const std::int64_t classes, classesFound(*train));
    if (part == Part::kTest && isFolder(path)) {
      const auto tested = classesFound(files, classes);
      if (!tested.ok()) return tested.status();
    }
    return classes;
  }
  return classesFound(files);  // A test part alone.
}

}  // namespace

Result<std::shared_ptr<const Dataset>> openRecordImages(const std::string& path, Part part,
                                                        const ReadOptions& options) {
  COLLA_TRY_ASSIGN(std::vector<RecordFile> files, openFiles(path, part));
  COLLA_TRY_ASSIGN(const std::int64_t classes, classesOf(path, part, files));
  const Share share = isFolder(path) ? Share::kAll : shareOf(part);
  auto source = std::make_shared<RecordImages>(std::move(files), share, classes);
  if (source->size() == 0) {
    return {StatusCode::kNotFound, fmt::format("{} has too few records for a {} part, which is "
                                               "every fifth",
                                               path, toString(part))};
  }
  return labelledImages(fmt::format("{} part of {}", toString(part), path), std::move(source), part,
                        options);
}

}  // namespace colla::data
