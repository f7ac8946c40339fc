#include "data/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace colla::data {
namespace {

Status failure(const std::string& path) {
  const StatusCode code = errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIo;
  return {code, fmt::format("cannot read {}: {}", path, std::strerror(errno))};
}

}  // namespace

Result<std::vector<std::byte>> readFile(const std::string& path) {
  // Without O_NONBLOCK a pipe of that name would hold us up before we could see that it is one.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return failure(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failure(path);
  if (!S_ISREG(status.st_mode)) {
    return {StatusCode::kIo, fmt::format("cannot read {}: it is not a file", path)};
  }
  std::vector<std::byte> bytes(status.st_size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(path);
    if (got == 0) break;  // Cut while we read: what is missing is found by who reads the contents.
    done += got;
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace colla::data
