// A file that grows at its end, through a buffer that is written out now and then.
//
// What was flushed is with the kernel: it survives this process, however that ends. Errors carry
// the path; after the first one the file takes no more and every call returns it, so that a full
// disk leaves a beginning and no hole. Not thread safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::observe {

class AppendFile {
 public:
  enum class Mode {
    kCreate,   // kRefused if there is one already.
    kReplace,  // Starts it anew.
    kAppend,   // Goes on where it ends.
  };
  // Bytes that are written out whatever the time.
  static constexpr std::size_t kBuffered = 64 * 1024;

  // "-" is standard output, whatever the mode. Appended bytes are written out at the first append()
  // that comes `flushEvery` after they were last. `clock` must live as long as the file.
  static Result<AppendFile> open(std::string path, Mode mode, std::chrono::milliseconds flushEvery,
                                 const Clock& clock);
  AppendFile(AppendFile&&) = default;
  AppendFile& operator=(AppendFile&&) = delete;
  // Closes; what goes wrong then is logged.
  ~AppendFile();

  const std::string& path() const { return path_; }
  Status append(std::string_view bytes);
  Status flush();
  // Flushes, and reports what the file system kept to itself until now. Later calls do nothing.
  Status close();

 private:
  AppendFile(std::string path, UniqueFd file, std::chrono::milliseconds flushEvery,
             const Clock& clock);
  Status broken(int error);

  std::string path_;
  UniqueFd file_;
  std::chrono::milliseconds flushEvery_;
  const Clock* clock_;
  TimePoint flushed_;
  std::string buffer_;
  Status error_;
};

}  // namespace colla::observe
