#include "observe/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace colla::observe {
namespace {

Status cannotWrite(const std::string& path, int error) {
  return {error == EEXIST ? StatusCode::kRefused : StatusCode::kIo,
          fmt::format("cannot write {}: {}", path, std::strerror(error))};
}

int flagsOf(AppendFile::Mode mode) {
  switch (mode) {
    case AppendFile::Mode::kCreate:
      return O_EXCL;
    case AppendFile::Mode::kReplace:
      return O_TRUNC;
    case AppendFile::Mode::kAppend:
      return O_APPEND;
  }
  return 0;
}

}  // namespace

AppendFile::AppendFile(std::string path, UniqueFd file, std::chrono::milliseconds flushEvery,
                       const Clock& clock)
    : path_(std::move(path)),
      file_(std::move(file)),
      flushEvery_(flushEvery),
      clock_(&clock),
      flushed_(clock.now()) {}

Result<AppendFile> AppendFile::open(std::string path, Mode mode,
                                    std::chrono::milliseconds flushEvery, const Clock& clock) {
  UniqueFd file(path == "-"
                    ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                    : ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flagsOf(mode), 0666));
  if (!file.valid()) return cannotWrite(path, errno);
  return AppendFile(std::move(path), std::move(file), flushEvery, clock);
}

AppendFile::~AppendFile() {
  const bool reported = !error_.ok();
  const Status status = close();
  if (!status.ok() && !reported) log::warn("{}", status.message());
}

Status AppendFile::broken(int error) {
  error_ = cannotWrite(path_, error);
  buffer_.clear();
  return error_;
}

Status AppendFile::append(std::string_view bytes) {
  if (!error_.ok()) return error_;
  buffer_ += bytes;
  if (buffer_.size() < kBuffered && clock_->now() - flushed_ < flushEvery_) return {};
  return flush();
}

Status AppendFile::flush() {
  if (!error_.ok()) return error_;
  flushed_ = clock_->now();
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return broken(errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
  return {};
}

Status AppendFile::close() {
  if (!file_.valid()) return error_;
  const Status status = flush();
  // A network file system may tell of a full disk only here.
  if (::close(file_.release()) != 0 && status.ok() && errno != EINTR) return broken(errno);
  return status;
}

}  // namespace colla::observe
