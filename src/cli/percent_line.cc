#include "percent_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/terminal.h"

namespace colla::cli {

PercentLine::PercentLine(std::string what)
    : what_(std::move(what)), terminal_(isTerminal(STDERR_FILENO)) {}

PercentLine::~PercentLine() {
  if (shown_ >= 0) fmt::print(stderr, "\r\x1b[K");
}

void PercentLine::update(std::int64_t done, std::int64_t all) {
  if (!terminal_ || all <= 0) return;
  const auto percent = static_cast<int>(100 * static_cast<double>(done) / static_cast<double>(all));
  if (percent == shown_) return;
  shown_ = percent;
  fmt::print(stderr, "\r{}: {} %\x1b[K", what_, percent);
}

}  // namespace colla::cli
