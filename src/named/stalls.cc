// The coordinator's reports of what waits too long.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "named/coordinator.h"

namespace colla::named {
namespace {

double secondsIn(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string Coordinator::line(const Key& key, const Entry& entry, TimePoint now) const {
  std::vector<int> ready;
  for (const auto& [rank, what] : entry.brought) ready.push_back(rank);
  const std::vector<int> absent = missing(key, entry);
  const Announcement& what = entry.brought.begin()->second;
  const std::string name = key.set == kOwnSet
                               ? describe(what)
                               : fmt::format("{}, {}", describe(what), toString(what.kind));
  std::string text = fmt::format("{}: ready on {}; missing on {}; for {:.1f} s", name,
                                 ranksText(ready), ranksText(absent), secondsIn(now - entry.since));
  // The usual reason that is hard to find.
  for (const auto& [other, theirs] : entries_) {
    if (other.name != key.name || other.set == key.set || key.set == kOwnSet) continue;
    for (const int rank : absent) {
      if (!theirs.brought.contains(rank)) continue;
      text += fmt::format(" (rank {} has brought it in process set {})", rank, other.set);
    }
  }
  return text;
}

Coordinator::Stall Coordinator::stalls(TimePoint now) {
  constexpr std::size_t kMostLines = 20;
  std::vector<std::string> late;
  std::vector<std::string> over;
  std::set<int> hosts;
  for (auto& [key, entry] : entries_) {
    const bool warn =
        options_.stallWarning.count() > 0 && now - entry.warned >= options_.stallWarning;
    const bool end =
        options_.stallShutdown.count() > 0 && now - entry.since >= options_.stallShutdown;
    if (!warn && !end) continue;
    const std::string text = line(key, entry, now);
    if (warn) {
      entry.warned = now;
      late.push_back(text);
      for (const int rank : missing(key, entry)) hosts.insert(rank);
    }
    if (end) over.push_back(text);
  }
  const auto list = [&](const std::vector<std::string>& lines, std::string_view before) {
    std::string text;
    for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
      text += fmt::format("{}{}", before, lines[i]);
    }
    if (lines.size() > kMostLines)
      text += fmt::format("\n  … and {} more", lines.size() - kMostLines);
    return text;
  };
  Stall stall;
  if (!late.empty()) {
    std::string missingNames;
    for (const int rank : hosts) {
      missingNames += (missingNames.empty() ? "" : ", ") + options_.names[rank];
    }
    stall.report = fmt::format(
        "{} operation{} waiting for {}: ranks may have submitted different names, or one does "
        "something else{}",
        late.size(), late.size() == 1 ? " is" : "s are", missingNames, list(late, "\n  "));
  }
  if (!over.empty()) {
    stall.end = {StatusCode::kTimeout,
                 fmt::format("stalled for more than {} s, which ends the exchange: {}",
                             secondsIn(options_.stallShutdown), list(over, " "))};
  }
  return stall;
}

TimePoint Coordinator::nextStall() const {
  TimePoint next = TimePoint::max();
  for (const auto& [key, entry] : entries_) {
    if (options_.stallWarning.count() > 0) {
      next = std::min(next, entry.warned + options_.stallWarning);
    }
    if (options_.stallShutdown.count() > 0) {
      next = std::min(next, entry.since + options_.stallShutdown);
    }
  }
  return next;
}

}  // namespace colla::named
