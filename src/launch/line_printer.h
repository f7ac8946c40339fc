// Merges what several processes say into one stream of lines, each with its speaker before it.
//
// Lines of different processes never mix. A line that stays unfinished for a while is shown as far
// as it is, and goes on where it was if nobody else spoke since. A carriage return starts the line
// over: of a progress bar only the states that were current when they were shown appear. However
// long a line is, no more than kLongest of it is kept.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"

namespace colla::launch {

class LinePrinter {
 public:
  static constexpr std::size_t kLongest = 16 * 1024;
  static constexpr std::chrono::milliseconds kShowAfter{200};

  // `prefixes` by process; `stamp` (may be null) gives what comes before each. On a terminal a line
  // that starts over does so in place.
  LinePrinter(std::vector<std::string> prefixes, bool terminal,
              std::function<std::string()> stamp = nullptr);

  // Takes in what `process` said; appends to `out` what can be shown.
  void add(int process, std::string_view bytes, TimePoint now, std::string& out);
  // Appends the unfinished lines that have waited long enough at `now`.
  void tick(TimePoint now, std::string& out);
  TimePoint nextDeadline() const;
  // Ends the unfinished line that was shown last, so that something else can be said.
  void breakLine(std::string& out);
  // Appends all that is left, and ends the last line.
  void finish(std::string& out);

 private:
  struct Speaker {
    std::string prefix;
    std::string line;       // Not shown yet.
    TimePoint since = {};   // When `line` began to wait.
    bool shown = false;     // The beginning of this line was.
    bool restart = false;   // `line` replaces that beginning.
    bool returned = false;  // The last byte was a carriage return.
  };
  bool isOpen(const Speaker& speaker) const { return open_ == &speaker - speakers_.data(); }
  // Shows the speaker's line as far as it is.
  void show(Speaker& speaker, std::string& out);
  void endLine(Speaker& speaker, std::string& out);
  std::string prefixOf(const Speaker& speaker) const;

  std::vector<Speaker> speakers_;
  const bool terminal_;
  const std::function<std::string()> stamp_;
  static constexpr std::ptrdiff_t kNobody = -1;
  // Whose unfinished line is the last thing shown.
  std::ptrdiff_t open_ = kNobody;
};

}  // namespace colla::launch
