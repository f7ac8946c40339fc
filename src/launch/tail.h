// The last lines of a stream, in bounded memory.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace colla::launch {

class Tail {
 public:
  static constexpr std::size_t kLines = 10;
  static constexpr std::size_t kLongest = 500;  // Of each line; the rest is left out.

  void add(std::string_view bytes);
  // Oldest first, an unfinished one included.
  std::deque<std::string> lines() const;

 private:
  std::deque<std::string> lines_;
  std::string line_;
};

}  // namespace colla::launch
