// Lets one process speak as it is, and at once, on a stream where others have lines to say.
//
// Its bytes are never changed, and reach `out` in the moment they come. Lines of others appear
// between its lines. On a terminal they do not wait for it to finish one: its unfinished line is
// erased if it is one that is drawn over and over, such as a progress bar, and else broken.
// Anywhere else they wait, so that whoever reads the stream finds every line whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colla::launch {

class Verbatim {
 public:
  // Lines of others that wait; with more of them the unfinished line is broken after all.
  static constexpr std::size_t kMostWaiting = 64 * 1024;

  explicit Verbatim(bool terminal) : terminal_(terminal) {}

  // What the process said; `lines` of others that waited for the end of a line go with it.
  void add(std::string_view bytes, std::string& lines, std::string& out);
  // Moves `lines` of others to `out`, unless they have to wait.
  void interleave(std::string& lines, std::string& out);
  // Erases or breaks an unfinished line, because something else comes now.
  void interrupt(std::string& out);

 private:
  const bool terminal_;
  bool unfinished_ = false;  // Its last line.
  bool redrawn_ = false;     // That line starts over after a carriage return.
};

}  // namespace colla::launch
