#include "launch/line_printer.h"

#include <algorithm>

namespace colla::launch {

LinePrinter::LinePrinter(std::vector<std::string> prefixes, bool terminal,
                         std::function<std::string()> stamp)
    : terminal_(terminal), stamp_(std::move(stamp)) {
  for (std::string& prefix : prefixes) speakers_.emplace_back().prefix = std::move(prefix);
}

void LinePrinter::add(int process, std::string_view bytes, TimePoint now, std::string& out) {
  Speaker& speaker = speakers_[static_cast<std::size_t>(process)];
  while (!bytes.empty()) {
    if (bytes.front() == '\n') {
      endLine(speaker, out);
      bytes.remove_prefix(1);
      continue;
    }
    if (bytes.front() == '\r') {
      speaker.returned = true;
      bytes.remove_prefix(1);
      continue;
    }
    if (speaker.returned) {  // And not followed by a line feed: this writes over what was there.
      speaker.returned = false;
      speaker.line.clear();
      speaker.restart = true;
    }
    const auto room = kLongest - speaker.line.size();
    const auto part = bytes.substr(0, std::min(bytes.find_first_of("\r\n"), room));
    if (speaker.line.empty()) speaker.since = now;
    speaker.line += part;
    bytes.remove_prefix(part.size());
    if (speaker.line.size() == kLongest) show(speaker, out);
  }
}

std::string LinePrinter::prefixOf(const Speaker& speaker) const {
  return stamp_ == nullptr ? speaker.prefix : stamp_() + speaker.prefix;
}

void LinePrinter::show(Speaker& speaker, std::string& out) {
  if (!isOpen(speaker)) {
    breakLine(out);
    out += prefixOf(speaker);
  } else if (speaker.restart && speaker.shown) {
    out += terminal_ ? "\r\033[K" : "\n";
    out += prefixOf(speaker);
  }
  out += speaker.line;
  speaker.line.clear();
  speaker.restart = false;
  speaker.shown = true;
  open_ = &speaker - speakers_.data();
}

void LinePrinter::endLine(Speaker& speaker, std::string& out) {
  speaker.returned = false;
  // Its beginning was shown and others spoke since: there is nothing to add to it.
  const bool nothingNew = speaker.line.empty() && speaker.shown && !isOpen(speaker);
  if (!nothingNew) {
    if (!speaker.line.empty() || !speaker.shown) show(speaker, out);
    breakLine(out);
  }
  speaker.restart = false;
  speaker.shown = false;
}

void LinePrinter::breakLine(std::string& out) {
  if (open_ != kNobody) out += '\n';
  open_ = kNobody;
}

void LinePrinter::tick(TimePoint now, std::string& out) {
  for (Speaker& speaker : speakers_) {
    if (!speaker.line.empty() && now >= speaker.since + kShowAfter) show(speaker, out);
  }
}

TimePoint LinePrinter::nextDeadline() const {
  TimePoint next = TimePoint::max();
  for (const Speaker& speaker : speakers_) {
    if (!speaker.line.empty()) next = std::min(next, speaker.since + kShowAfter);
  }
  return next;
}

void LinePrinter::finish(std::string& out) {
  for (Speaker& speaker : speakers_) {
    if (!speaker.line.empty()) show(speaker, out);
  }
  breakLine(out);
}

}  // namespace colla::launch
