// Lines of a text file in memory, counted as editors do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace colla::data {

// The text must outlive it. Not thread safe.
class Lines {
 public:
  explicit Lines(std::span<const std::byte> text)
      : rest_(reinterpret_cast<const char*>(text.data()), text.size()) {}

  // False behind the last line. Line ends of Windows are taken off too.
  bool next() {
    if (rest_.empty()) return false;
    const std::size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    ++number_;
    return true;
  }
  std::string_view line() const { return line_; }
  std::int64_t number() const { return number_; }  // From 1.

 private:
  std::string_view rest_;
  std::string_view line_;
  std::int64_t number_ = 0;
};

}  // namespace colla::data
