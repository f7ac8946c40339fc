// A private directory for the benchmark's files, removed whatever happens to the process: a small
// guard process, which outlives even kill -9 of this one, does it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::bench {

class Scratch {
 public:
  static Result<Scratch> create();
  Scratch(Scratch&&) noexcept = default;
  Scratch& operator=(Scratch&&) = delete;
  // Waits until everything is removed.
  ~Scratch();

  // Under TMPDIR, or /tmp.
  const std::string& directory() const { return directory_; }
  // In memory (/dev/shm), for files that processes map; directory() where there is no such thing.
  const std::string& memoryDirectory() const { return memoryDirectory_; }

  // For a file of so many bytes: in memory, if that has room; what is on a disk is written out
  // while others are measured.
  const std::string& directoryFor(std::size_t bytes) const;

  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  // The new file's path.
  Result<std::string> write(const std::string& file, std::string_view text) const;

 private:
  Scratch() = default;
  std::string directory_;
  std::string memoryDirectory_;
  UniqueFd alive_;  // The guard removes everything once nobody holds this.
  pid_t guard_ = -1;
};

}  // namespace colla::bench
