// Files: as bytes, and found in folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::data {

// A regular file that is open for reading.
struct OpenFile {
  UniqueFd descriptor;
  std::int64_t size = 0;
};
// kNotFound when there is none; errors name it.
Result<OpenFile> openFile(const std::string& path);

// All of a regular file.
Result<std::vector<std::byte>> readFile(const std::string& path);

// "cannot read PATH: …" for an errno.
Status readFailure(const std::string& path, int error);

bool isFolder(const std::filesystem::path& path);
// `path` itself, or the folder that the file lies in.
std::filesystem::path folderOf(const std::filesystem::path& path);
// Names in a folder that `wanted` takes, sorted. What can't be read is as good as not there.
std::vector<std::string> namesIn(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::directory_entry& entry)>& wanted);
// The paths of regular files, chosen by their names.
std::vector<std::string> filesIn(const std::filesystem::path& folder,
                                 const std::function<bool(const std::string& name)>& wanted);

}  // namespace colla::data
