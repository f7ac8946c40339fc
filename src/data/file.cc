#include "data/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace colla::data {

Status readFailure(const std::string& path, int error) {
  const StatusCode code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kIo;
  return {code, fmt::format("cannot read {}: {}", path, std::strerror(error))};
}

Result<OpenFile> openFile(const std::string& path) {
  // Without O_NONBLOCK a pipe of that name would hold us up before we could see that it is one.
  OpenFile file{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (!file.descriptor.valid()) return readFailure(path, errno);
  struct stat status {};
  if (::fstat(file.descriptor.get(), &status) != 0) return readFailure(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return {StatusCode::kIo, fmt::format("cannot read {}: it is not a file", path)};
  }
  file.size = status.st_size;
  return file;
}

Result<std::vector<std::byte>> readFile(const std::string& path) {
  COLLA_TRY_ASSIGN(const OpenFile file, openFile(path));
  std::vector<std::byte> bytes(file.size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.descriptor.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return readFailure(path, errno);
    if (got == 0) break;  // Cut while we read: what is missing is found by who reads the contents.
    done += got;
  }
  bytes.resize(done);
  return bytes;
}

bool isFolder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::filesystem::path folderOf(const std::filesystem::path& path) {
  return isFolder(path) ? path : path.parent_path();
}

std::vector<std::string> namesIn(
    const std::filesystem::path& folder,
    const std::function<bool(const std::filesystem::directory_entry& entry)>& wanted) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), last; !error && entry != last;
       entry.increment(error)) {
    if (wanted(*entry)) names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> filesIn(const std::filesystem::path& folder,
                                 const std::function<bool(const std::string& name)>& wanted) {
  auto files = namesIn(folder, [&](const std::filesystem::directory_entry& entry) {
    std::error_code ignored;
    return wanted(entry.path().filename().string()) && entry.is_regular_file(ignored);
  });
  for (std::string& file : files) file = (folder / file).string();
  return files;
}

}  // namespace colla::data
