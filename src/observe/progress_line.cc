#include "observe/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace colla::observe {
namespace {

constexpr int kLongestBar = 30;
constexpr int kShortestBar = 10;

double secondsSince(TimePoint then, TimePoint now) {
  return std::max(0.0, std::chrono::duration<double>(now - then).count());
}

// Small values, such as late losses, would be all zeros with four decimals.
std::string text(const Metric& metric) {
  const double size = std::abs(metric.value);
  return size > 0 && size <= 1e-3 ? fmt::format("{}: {:.4e}", metric.name, metric.value)
                                  : fmt::format("{}: {:.4f}", metric.name, metric.value);
}

// "84/196", with `done` in at least `width` columns.
std::string count(const SectionState& state, std::size_t width) {
  const std::string_view word = state.section.epochs > 0 ? "" : "Step ";
  return fmt::format("{}{:>{}}/{}", word, state.done, width, state.section.steps);
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

// " [====>....]" with `length` columns between the brackets.
std::string drawing(const SectionState& state, int length) {
  const double part = state.section.steps > 0 ? static_cast<double>(state.done) /
                                                    static_cast<double>(state.section.steps)
                                              : 1.0;
  const auto full = std::clamp(static_cast<int>(part * length), 0, length);
  std::string bar(static_cast<std::size_t>(full), '=');
  if (full > 0 && full < length) bar.back() = '>';
  bar.resize(static_cast<std::size_t>(length), '.');
  return fmt::format(" [{}]", bar);
}

std::string rate(const SectionState& state, double seconds) {
  const double value = static_cast<double>(state.samples) / seconds;
  return value < 10 ? fmt::format(" - {:.2f} samples/s", value)
                    : fmt::format(" - {:.0f} samples/s", value);
}

std::string timeLeft(const SectionState& state, double seconds) {
  const auto done = static_cast<double>(state.done - state.section.already);
  const auto left =
      static_cast<double>(std::max<std::int64_t>(0, state.section.steps - state.done));
  return fmt::format(" - ETA: {}", duration(seconds / done * left));
}

}  // namespace

std::string sectionTitle(const Section& section) {
  if (section.epochs <= 0) return "";
  return fmt::format("Epoch {}/{}", section.epoch, section.epochs);
}

std::string bar(const SectionState& state, Metrics metrics, TimePoint now, int width) {
  const auto columns = static_cast<std::size_t>(std::max(0, width));
  const double seconds = secondsSince(state.began, now);
  const bool measured = seconds > 0 && state.done > state.section.already;
  // Of the same width all the time.
  const std::string head = count(state, fmt::formatted_size("{}", state.section.steps));
  std::string speed = measured ? rate(state, seconds) : "";
  const std::string left = measured ? timeLeft(state, seconds) : "";
  std::vector<std::string> values;
  for (const Metric& metric : metrics) values.push_back(" - " + text(metric));

  const auto rest = [&] {
    std::string joined = speed + left;
    for (const std::string& value : values) joined += value;
    return joined;
  };
  constexpr std::size_t kFrame = 3;  // A space and two brackets.
  const auto fits = [&](std::size_t barLength) {
    return head.size() + kFrame + barLength + rest().size() <= columns;
  };
  while (values.size() > 1 && !fits(kShortestBar)) values.pop_back();
  if (!fits(kShortestBar)) {
    if (head.size() + rest().size() > columns) speed.clear();
    return (head + rest()).substr(0, columns);
  }
  const std::size_t room = columns - head.size() - kFrame - rest().size();
  const int length = std::min(kLongestBar, static_cast<int>(room));
  return head + drawing(state, length) + rest();
}

std::string sectionEnd(const SectionState& state, Metrics metrics, TimePoint now) {
  std::string line = fmt::format("{} - {:.0f}s", count(state, 0), secondsSince(state.began, now));
  for (const Metric& metric : metrics) line += " - " + text(metric);
  return line;
}

}  // namespace colla::observe
