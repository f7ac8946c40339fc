// A private directory for a command's files. A guardian without processes (launch/guardian.h)
// removes it, so it goes even when this process is killed with -9.
#pragma once

#include <string>
#include <string_view>

#include "colla/status.h"
#include "launch/guardian.h"

namespace colla::launch {

class Scratch {
 public:
  // The calling process must have one thread.
  static Result<Scratch> create();

  // Under TMPDIR, or /tmp.
  const std::string& directory() const { return directory_; }
  // In memory (/dev/shm), for files that processes map; directory() where there is no /dev/shm.
  const std::string& memoryDirectory() const { return memoryDirectory_; }
  // Where to put files of so many bytes: in memory if there is room, because the kernel writes
  // files on a disk out while something else is measured.
  const std::string& directoryFor(std::size_t bytes) const;

  std::string path(const std::string& file) const { return directory_ + "/" + file; }
  // The new file's path.
  Result<std::string> write(const std::string& file, std::string_view text) const;

 private:
  Scratch(std::string directory, std::string memoryDirectory, Guardian guardian)
      : directory_(std::move(directory)),
        memoryDirectory_(std::move(memoryDirectory)),
        guardian_(std::move(guardian)) {}

  std::string directory_;
  std::string memoryDirectory_;
  Guardian guardian_;  // Its destructor waits until everything is removed.
};

}  // namespace colla::launch
