// A text file, line by line, without having all of it in memory.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "colla/status.h"

namespace colla::data {

// Move only, not thread safe.
class LineFile {
 public:
  // kNotFound where there is none; it has to be a regular file.
  static Result<LineFile> open(std::string path);

  // Reads the next line; false at the end. Errors name the file.
  Result<bool> next();
  // Without its end, also that of Windows; until the next call of next().
  std::string_view line() const { return line_; }
  std::int64_t number() const { return number_; }  // From 1.
  // Where the line begins, and the size of the file when it was opened.
  std::int64_t position() const { return position_; }
  std::int64_t size() const { return size_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  LineFile(std::string path, std::FILE* file, std::int64_t size)
      : path_(std::move(path)), file_(file), size_(size) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t size_;
  std::unique_ptr<char, Free> buffer_;
  std::size_t capacity_ = 0;
  std::string_view line_;
  std::int64_t number_ = 0;
  std::int64_t position_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace colla::data
