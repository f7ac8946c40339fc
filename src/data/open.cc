#include "data/synthetic/open.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "base/nearest.h"
#include "colla/dataset.h"
#include "data/image/cifar.h"
#include "data/image/folder.h"
#include "data/image/mnist.h"
#include "data/read_options.h"
#include "data/record/captions.h"
#include "data/record/images.h"
#include "data/sequence/proteins.h"
#include "data/share.h"
#include "data/sparse/libsvm.h"
#include "data/text/text_files.h"

namespace colla {
namespace {

using data::DatasetResult;

// How a data set is named: "NAME" or "NAME:ARGUMENT". A new reader is one more row.
struct Kind {
  std::string_view name;
  std::string_view help;
  DatasetResult (*open)(std::string_view argument, Part part, const ReadOptions& options);
  // For folders given without a name; null where a folder can't be recognised.
  bool (*recognises)(const std::string& folder);
};

DatasetResult openMnistFolder(std::string_view folder, Part part, const ReadOptions& options) {
  COLLA_TRY(data::checkOptions(folder, options, {.images = true}));
  return data::openMnist(std::string(folder), part, options);
}

template <data::Cifar which>
DatasetResult openCifarFolder(std::string_view folder, Part part, const ReadOptions& options) {
  COLLA_TRY(data::checkOptions(folder, options, {.images = true}));
  return data::openCifar(which, std::string(folder), part, options);
}
template <data::Cifar which>
bool looksLikeCifarFolder(const std::string& folder) {
  return data::looksLikeCifar(which, folder);
}

DatasetResult openImageFolder(std::string_view folder, Part part, const ReadOptions& options) {
  COLLA_TRY(data::checkOptions(folder, options, {.images = true}));
  return data::openImages(std::string(folder), part, options);
}

DatasetResult openCaptionsFolder(std::string_view folder, Part part, const ReadOptions& options) {
  COLLA_TRY(
      data::checkOptions(folder, options, {.images = true, .length = true, .vocabulary = true}));
  return data::openCaptions(std::string(folder), part, options);
}

DatasetResult openProteinFiles(std::string_view path, Part part, const ReadOptions& options) {
  COLLA_TRY(data::checkOptions(path, options, {.length = true}));
  return data::openProteins(std::string(path), part, options);
}

DatasetResult openLibsvmFile(std::string_view file, Part part, const ReadOptions& options) {
  COLLA_TRY(data::checkOptions(file, options, {}));
  return data::openLibsvm(std::string(file), part);
}

DatasetResult openRecordImageFiles(std::string_view path, Part part, const ReadOptions& options) {
  COLLA_TRY(data::checkOptions(path, options, {.images = true}));
  return data::openRecordImages(std::string(path), part, options);
}

DatasetResult openTextFiles(std::string_view path, Part part, const ReadOptions& options) {
  COLLA_TRY(data::checkOptions(path, options, {.length = true, .vocabulary = true}));
  return data::openText(std::string(path), part, options);
}

constexpr std::array kKinds = {
    Kind{"captions", "captions:FOLDER or the FOLDER alone (made by colla data captions)",
         openCaptionsFolder, data::looksLikeCaptions},
    Kind{"cifar10", "cifar10:FOLDER or the FOLDER alone (binary or Python version)",
         openCifarFolder<data::Cifar::k10>, looksLikeCifarFolder<data::Cifar::k10>},
    Kind{"cifar100", "cifar100:FOLDER or the FOLDER alone", openCifarFolder<data::Cifar::k100>,
         looksLikeCifarFolder<data::Cifar::k100>},
    Kind{"images", "images:FOLDER or the FOLDER alone (a folder of JPEG or PNG files per class)",
         openImageFolder, data::looksLikeImages},
    Kind{"libsvm", "libsvm:FILE (and FILE.t for the test)", openLibsvmFile, nullptr},
    Kind{"mnist", "mnist:FOLDER or the FOLDER alone (MNIST, Fashion-MNIST)", openMnistFolder,
         data::looksLikeMnist},
    Kind{"proteins", "proteins:FOLDER or FILE (label<TAB>sequence, or FASTA)", openProteinFiles,
         data::looksLikeProteins},
    Kind{"share", "share:10%:NAME (so many training samples of a set)", data::openShare, nullptr},
    Kind{"synthetic:captions", "synthetic:captions[:SAMPLES]", data::openSyntheticCaptions,
         nullptr},
    Kind{"synthetic:cifar10", "synthetic:cifar10[:SAMPLES]", data::openSyntheticCifar10, nullptr},
    Kind{"synthetic:cifar100", "synthetic:cifar100[:SAMPLES]", data::openSyntheticCifar100,
         nullptr},
    Kind{"synthetic:gpcr", "synthetic:gpcr[:SAMPLES]", data::openSyntheticGpcr, nullptr},
    Kind{"synthetic:libsvm", "synthetic:libsvm[:SAMPLESxFEATURES]", data::openSyntheticLibsvm,
         nullptr},
    Kind{"synthetic:lr", "synthetic:lr[:SAMPLESxFEATURES]", data::openSyntheticLr, nullptr},
    Kind{"synthetic:mnist", "synthetic:mnist[:SAMPLES]", data::openSyntheticMnist, nullptr},
    Kind{"synthetic:text", "synthetic:text[:WORDS[xVOCABULARY]]", data::openSyntheticText, nullptr},
    Kind{"text", "text:FOLDER or FILE", openTextFiles, data::looksLikeText},
    Kind{"tfrecord", "tfrecord:FOLDER or FILE (labelled images in tf.Examples)",
         openRecordImageFiles, nullptr},
};

std::string whatThereIs() {
  std::vector<std::string_view> lines;
  for (const Kind& kind : kKinds) lines.push_back(kind.help);
  return fmt::format("there are {}", fmt::join(lines, ", "));
}

// A name that may have been meant. Those of synthetic sets have a colon of their own.
std::string nearestTo(std::string_view text) {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  const auto colon = text.find(':');
  const auto second = colon == std::string_view::npos ? colon : text.find(':', colon + 1);
  const std::string meant = didYouMean(text.substr(0, second), names);
  return meant.empty() ? didYouMean(text.substr(0, colon), names) : meant;
}

// Readers say which of their files is missing: that would hide that the folder itself is.
Status checkThere(const Kind& kind, std::string_view path) {
  std::error_code ignored;
  const bool files = kind.name != "share" && !kind.name.starts_with("synthetic:");
  if (!files || std::filesystem::exists(path, ignored)) return {};
  const bool file = kind.help.find("FILE") != std::string_view::npos;
  const bool folder = kind.help.find("FOLDER") != std::string_view::npos;
  return {StatusCode::kNotFound, fmt::format("there is no {} {}",
                                             !folder ? "file"
                                             : file  ? "file or folder"
                                                     : "folder",
                                             path)};
}

}  // namespace

std::string_view toString(Part part) { return part == Part::kTrain ? "train" : "test"; }

DatasetResult openDataset(std::string_view text, Part part, const ReadOptions& options) {
  const std::string folder(text);
  std::error_code ignored;
  const bool isFolder = std::filesystem::is_directory(folder, ignored);
  for (const Kind& kind : kKinds) {
    if (!text.starts_with(kind.name)) continue;
    const std::string_view rest = text.substr(kind.name.size());
    if (rest.starts_with(':')) {
      COLLA_TRY(checkThere(kind, rest.substr(1)));
      return kind.open(rest.substr(1), part, options);
    }
    if (!rest.empty() || isFolder) continue;  // A folder may be called "images", too.
    if (kind.name.starts_with("synthetic:")) return kind.open("", part, options);
    return {StatusCode::kInvalidArgument,
            fmt::format("\"{}\" does not say where the files are; write {}", text, kind.help)};
  }
  if (isFolder) {
    for (const Kind& kind : kKinds) {
      if (kind.recognises == nullptr || !kind.recognises(folder)) continue;
      return kind.open(text, part, options);
    }
    return {StatusCode::kNotFound,
            fmt::format("folder {} has no data set that Colla knows; {}", text, whatThereIs())};
  }
  if (const auto slash = text.find('/'); slash != text.npos && slash < text.find(':')) {
    return {StatusCode::kNotFound, fmt::format("there is no folder {}", text)};
  }
  return {StatusCode::kNotFound, fmt::format("\"{}\" is neither a data set nor a folder; {}{}",
                                             text, whatThereIs(), nearestTo(text))};
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
