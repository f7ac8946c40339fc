// Files on disk, written so that they survive a crash and read so that damage is an error, not a
// signal. Every error names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "colla/status.h"

namespace colla::checkpoint {

// "cannot `action` `path`: …" from errno.
Status ioError(std::string_view action, std::string_view path);

// Makes a new file of `pieces`, one after the other, and returns once they are on the disk.
Result<FileEntry> writeFile(const std::string& directory, const std::string& name,
                            std::span<const std::span<const std::byte>> pieces);

// What was created, renamed or removed in a directory is on the disk afterwards.
Status syncDirectory(const std::string& path);

// All of a small file; an error if it has more than `limit` bytes.
Result<std::string> readFile(const std::string& path, std::size_t limit);

// The file has the size and the CRC32C that `entry` says. Reads it once.
Status verifyFile(const std::string& path, const FileEntry& entry);

// A file's bytes, mapped for reading. Movable; bytes() stay where they are. Nobody may shorten the
// file meanwhile; those of a checkpoint are never changed, only removed, which does no harm.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace colla::checkpoint
