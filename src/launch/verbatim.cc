#include "launch/verbatim.h"

namespace colla::launch {

void Verbatim::add(std::string_view bytes, std::string& lines, std::string& out) {
  if (const auto end = bytes.rfind('\n'); end != std::string_view::npos) {
    out += bytes.substr(0, end + 1);
    bytes.remove_prefix(end + 1);
    unfinished_ = false;
    redrawn_ = false;
    interleave(lines, out);
  }
  out += bytes;
  unfinished_ = unfinished_ || !bytes.empty();
  redrawn_ = redrawn_ || bytes.find('\r') != std::string_view::npos;
}

void Verbatim::interleave(std::string& lines, std::string& out) {
  if (lines.empty()) return;
  if (unfinished_) {
    if (!terminal_ && lines.size() <= kMostWaiting) return;
    interrupt(out);
  }
  out += lines;
  lines.clear();
}

void Verbatim::interrupt(std::string& out) {
  if (!unfinished_) return;
  out += terminal_ && redrawn_ ? "\r\033[K" : "\n";
  unfinished_ = false;
  redrawn_ = false;
}

}  // namespace colla::launch
