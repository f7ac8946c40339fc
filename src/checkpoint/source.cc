#include "checkpoint/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "checkpoint/directory.h"

namespace colla::checkpoint {
namespace {

namespace fs = std::filesystem;

// `path` is a directory of checkpoints or a run's directory with checkpoints/ in it.
Directory directoryAt(const fs::path& path) {
  std::error_code error;
  return Directory(fs::is_directory(path / "checkpoints", error) ? path / "checkpoints" : path,
                   Offer::kName);
}

}  // namespace

Result<Named> splitStep(const std::string& text) {
  std::error_code error;
  const auto at = text.rfind('@');
  if (at == std::string::npos || fs::exists(text, error)) return Named{text, std::nullopt};
  const std::string path = text.substr(0, at);
  if (text.substr(at + 1) == "best") {
    COLLA_TRY_ASSIGN(const std::int64_t best, directoryAt(path).best());
    return Named{path, best};
  }
  std::int64_t step = -1;
  const char* end = text.data() + text.size();
  const auto [stopped, wrong] = std::from_chars(text.data() + at + 1, end, step);
  if (wrong != std::errc{} || stopped != end || step < 0) {
    return {StatusCode::kInvalidArgument,
            fmt::format("in \"{}\", what follows the @ is neither a step nor best", text)};
  }
  return Named{path, step};
}

std::string_view toString(Part part) {
  switch (part) {
    case Part::kParameter:
      return "parameter";
    case Part::kBuffer:
      return "buffer";
    case Part::kOptimizer:
      return "optimizer";
    case Part::kTensor:
      return "tensor";
  }
  return "unknown";
}

Result<Source> Source::open(const std::string& text) {
  COLLA_TRY_ASSIGN(const Named named, splitStep(text));
  std::error_code error;
  const fs::path path(named.path);
  if (!fs::exists(path, error)) {
    return {StatusCode::kNotFound, fmt::format("there is no file or folder {}", named.path)};
  }
  const bool isFile = !fs::is_directory(path, error);
  // One that lost its manifest is named by what it lacks, not taken for an empty directory.
  const bool isStep =
      fs::exists(path / kManifestFile, error) || fs::exists(path / kModelFile, error);
  if (named.step && (isFile || isStep)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} is one checkpoint or file: leave out @{}", named.path, *named.step)};
  }
  if (isFile) {
    COLLA_TRY_ASSIGN(TensorFile file, TensorFile::open(named.path));
    return Source(std::move(file));
  }
  if (isStep) {
    COLLA_TRY_ASSIGN(Loaded loaded, Loaded::open(named.path));
    return Source(std::move(loaded));
  }
  const Directory directory = directoryAt(path);
  auto loaded = named.step ? directory.load(*named.step) : directory.loadNewest();
  if (!loaded.ok()) return loaded.status();
  return Source(*std::move(loaded));
}

std::vector<Item> Source::items() const {
  std::vector<Item> items;
  if (file_) {
    for (const TensorView& tensor : file_->tensors()) items.push_back({Part::kTensor, &tensor});
    return items;
  }
  for (const TensorView& tensor : checkpoint_->model()) {
    items.push_back(
        {checkpoint_->isBuffer(tensor.name) ? Part::kBuffer : Part::kParameter, &tensor});
  }
  for (const TensorView& tensor : checkpoint_->optimizer())
    items.push_back({Part::kOptimizer, &tensor});
  std::ranges::stable_sort(items, {}, &Item::part);
  return items;
}

}  // namespace colla::checkpoint
