#include "checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/crc32c.h"
#include "base/unique_fd.h"

namespace colla::checkpoint {
namespace {

// Small enough to be still in cache when it is read again for the checksum.
constexpr std::size_t kChunk = 256 << 10;

Status writeAll(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ioError("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<std::size_t> readSome(int fd, std::span<std::byte> into, const std::string& path) {
  for (;;) {
    const ssize_t got = ::read(fd, into.data(), into.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return ioError("read", path);
  }
}

struct OpenFile {
  UniqueFd fd;
  std::uint64_t size = 0;
};

Result<OpenFile> openToRead(const std::string& path) {
  // A pipe must not keep us waiting for its writer.
  OpenFile file{UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  struct stat info {};
  if (!file.fd.valid() || fstat(file.fd.get(), &info) != 0) return ioError("open", path);
  if (!S_ISREG(info.st_mode)) {
    return {StatusCode::kInvalidArgument, fmt::format("{} is not a file", path)};
  }
  file.size = static_cast<std::uint64_t>(info.st_size);
  return file;
}

}  // namespace

Status ioError(std::string_view action, std::string_view path) {
  const int error = errno;
  std::string message = fmt::format("cannot {} {}: {}", action, path, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) message += " (free some space there, or save elsewhere)";
  return {error == ENOENT ? StatusCode::kNotFound : StatusCode::kIo, std::move(message)};
}

Result<FileEntry> writeFile(const std::string& directory, const std::string& name,
                            std::span<const std::span<const std::byte>> pieces) {
  const std::string path = directory + "/" + name;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return ioError("create", path);

  FileEntry entry{name, 0, 0};
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty()) {
      const auto chunk = piece.first(std::min(piece.size(), kChunk));
      COLLA_TRY(writeAll(fd.get(), chunk, path));
      entry.crc = crc32c(chunk, entry.crc);
      entry.bytes += chunk.size();
      piece = piece.subspan(chunk.size());
    }
  }
  if (fsync(fd.get()) != 0) return ioError("write", path);
  // Some network file systems tell only now that the disk was full.
  if (::close(fd.release()) != 0) return ioError("write", path);
  return entry;
}

Status syncDirectory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ioError("open", path);
  // Some file systems cannot, and say so; there is nothing more to do about those.
  if (fsync(fd.get()) != 0 && errno != EINVAL) return ioError("sync", path);
  return {};
}

Result<std::string> readFile(const std::string& path, std::size_t limit) {
  COLLA_TRY_ASSIGN(const OpenFile file, openToRead(path));
  if (file.size > limit) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} has {} bytes, more than the {} it may have", path, file.size, limit)};
  }
  std::string text(file.size, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    COLLA_TRY_ASSIGN(
        const std::size_t got,
        readSome(file.fd.get(), std::as_writable_bytes(std::span(text)).subspan(filled), path));
    if (got == 0) break;
    filled += got;
  }
  text.resize(filled);
  return text;
}

Status verifyFile(const std::string& path, const FileEntry& entry) {
  COLLA_TRY_ASSIGN(const OpenFile file, openToRead(path));
  if (file.size != entry.bytes) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} is damaged: it has {} bytes, but was written with {}", path, file.size,
                        entry.bytes)};
  }
  // Read, not mapped: a disk that fails is an error here, and would be a signal there.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kChunk);
  std::uint32_t crc = 0;
  for (;;) {
    COLLA_TRY_ASSIGN(const std::size_t got, readSome(file.fd.get(), {buffer.get(), kChunk}, path));
    if (got == 0) break;
    crc = crc32c({buffer.get(), got}, crc);
  }
  if (crc == entry.crc) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is damaged: its CRC32C is {:08x}, but was {:08x} when it was written",
                      path, crc, entry.crc)};
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  COLLA_TRY_ASSIGN(const OpenFile file, openToRead(path));
  if (file.size == 0) return MappedFile({});  // Which mmap refuses.
  void* data = mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (data == MAP_FAILED) return ioError("map", path);
  return MappedFile({static_cast<const std::byte*>(data), file.size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace colla::checkpoint
