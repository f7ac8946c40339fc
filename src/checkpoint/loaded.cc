#include "checkpoint/loaded.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/file.h"

namespace colla::checkpoint {

Result<Manifest> readManifest(const std::string& path) {
  const std::string manifestPath = path + "/" + kManifestFile;
  COLLA_TRY_ASSIGN(const std::string text, readFile(manifestPath, kMaxManifest));
  auto parsed = parseManifest(text);
  if (!parsed.ok()) return parsed.status().withContext(manifestPath);
  Manifest manifest = *std::move(parsed);
  std::ranges::sort(manifest.buffers);

  for (const char* name : {kModelFile, kOptimizerFile}) {
    if (std::ranges::find(manifest.files, name, &FileEntry::name) == manifest.files.end()) {
      return {StatusCode::kInvalidArgument, fmt::format("{} does not list {}", manifestPath, name)};
    }
  }
  return manifest;
}

Result<Loaded> Loaded::open(const std::string& path) {
  COLLA_TRY_ASSIGN(Manifest manifest, readManifest(path));
  for (const FileEntry& file : manifest.files) {
    COLLA_TRY(verifyFile(path + "/" + file.name, file));
  }
  COLLA_TRY_ASSIGN(TensorFile model, TensorFile::open(path + "/" + kModelFile));
  COLLA_TRY_ASSIGN(TensorFile optimizer, TensorFile::open(path + "/" + kOptimizerFile));
  return Loaded(path, std::move(manifest), std::move(model), std::move(optimizer));
}

bool Loaded::isBuffer(std::string_view name) const {
  return std::ranges::binary_search(manifest_.buffers, name);
}

}  // namespace colla::checkpoint
