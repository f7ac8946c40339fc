#include "study/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/terminal.h"

namespace colla::study {

std::string duration(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<long>(std::lround(seconds / 60));
  if (minutes < 100) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

Progress::Progress(const Plan& plan) : plan_(plan), terminal_(isTerminal(STDERR_FILENO)) {}

Progress::~Progress() {
  if (!shown_.empty()) fmt::print(stderr, "\r\x1b[K");
}

void Progress::begin(std::size_t index, double factor) {
  index_ = index;
  factor_ = factor;
  began_ = std::chrono::steady_clock::now();
  if (!terminal_) fmt::print(stderr, "{}\n", line());
  tick();
}

std::string Progress::line() const {
  const PlannedRun& run = plan_.runs[index_];
  const double passed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  double left = std::max(0.0, factor_ * run.seconds - passed);
  for (std::size_t i = index_ + 1; i < plan_.runs.size(); ++i)
    left += factor_ * plan_.runs[i].seconds;
  return fmt::format("run {} of {}: {}, repeat {}; about {} left", index_ + 1, plan_.runs.size(),
                     plan_.variant(run.variant).label, run.repeat + 1, duration(left));
}

void Progress::tick() {
  if (!terminal_) return;
  const std::string now = line();
  if (now == shown_) return;
  shown_ = now;
  fmt::print(stderr, "\r{}\x1b[K", now);
}

void Progress::say(const std::string& text) {
  if (!shown_.empty()) fmt::print(stderr, "\r\x1b[K");
  shown_.clear();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace colla::study
