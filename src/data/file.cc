#include "data/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

}  // namespace colla::data
