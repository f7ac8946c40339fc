#include "launch/tail.h"

#include <algorithm>
#include <utility>

namespace colla::launch {
namespace {

// Cuts without leaving half of a UTF-8 character.
void shorten(std::string& line) {
  if (line.size() <= Tail::kLongest) return;
  std::size_t size = Tail::kLongest;
  while (size > 0 && (static_cast<unsigned char>(line[size]) & 0xc0) == 0x80) --size;
  line.resize(size);
  line += " …";
}

void push(std::deque<std::string>& lines, std::string line) {
  while (!line.empty() && line.back() == '\r') line.pop_back();
  if (const auto from = line.rfind('\r'); from != std::string::npos) line.erase(0, from + 1);
  shorten(line);
  lines.push_back(std::move(line));
  if (lines.size() > Tail::kLines) lines.pop_front();
}

}  // namespace

void Tail::add(std::string_view bytes) {
  // Twice the length to look for carriage returns in, so that a progress bar shows its end.
  constexpr std::size_t kKept = 2 * kLongest;
  for (;;) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    if (part.find('\r') != std::string_view::npos && line_.size() + part.size() > kKept) {
      line_ = part.substr(part.size() - std::min(part.size(), kKept));
    } else if (line_.size() < kKept) {
      line_ += part.substr(0, kKept - line_.size());
    }
    if (end == std::string_view::npos) return;
    push(lines_, std::exchange(line_, {}));
    bytes.remove_prefix(end + 1);
  }
}

std::deque<std::string> Tail::lines() const {
  auto lines = lines_;
  if (!line_.empty()) push(lines, line_);
  return lines;
}

}  // namespace colla::launch
