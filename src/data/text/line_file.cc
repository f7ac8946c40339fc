#include "data/text/line_file.h"

#include <cerrno>
#include <utility>

#include "data/file.h"

namespace colla::data {

Result<LineFile> LineFile::open(std::string path) {
  COLLA_TRY_ASSIGN(OpenFile file, openFile(path));
  std::FILE* const stream = ::fdopen(file.descriptor.get(), "r");
  if (stream == nullptr) return readFailure(path, errno);
  file.descriptor.release();
  return LineFile(std::move(path), stream, file.size);
}

Result<bool> LineFile::next() {
  char* buffer = buffer_.release();
  errno = 0;
  const ssize_t length = ::getline(&buffer, &capacity_, file_.get());
  buffer_.reset(buffer);
  if (length < 0) {
    if (std::ferror(file_.get()) != 0 || errno == ENOMEM) return readFailure(path_, errno);
    return false;
  }
  position_ = end_;
  end_ += length;
  ++number_;
  line_ = std::string_view(buffer, length);
  if (line_.ends_with('\n')) line_.remove_suffix(1);
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  return true;
}

}  // namespace colla::data
