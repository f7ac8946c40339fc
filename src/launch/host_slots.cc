#include "launch/host_slots.h"

#include <charconv>
#include <sstream>
#include <string_view>

#include "base/invalid.h"
#include "launch/run.h"

namespace colla::launch {
namespace {

Result<int> parseSlots(std::string_view text, std::string_view where) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 ||
      slots > kMaxProcesses) {
    return invalid("{}: a host has a number of slots above 0 and up to {}, not \"{}\"", where,
                   kMaxProcesses, text);
  }
  return slots;
}

}  // namespace

Result<std::vector<HostSlots>> parseHostSlots(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto colon = word.rfind(':');
    HostSlots host{.name = word.substr(0, colon)};
    if (colon != std::string::npos) {
      COLLA_TRY_ASSIGN(host.slots, parseSlots(word.substr(colon + 1), "-H " + text));
    }
    if (host.name.empty()) return invalid("-H takes HOST:SLOTS,HOST:SLOTS, not \"{}\"", text);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

Result<std::vector<HostSlots>> parseHostFile(const std::string& text, const std::string& path) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    HostSlots host;
    if (!(words >> host.name)) continue;
    for (std::string word; words >> word;) {
      if (!word.starts_with("slots=")) {
        return invalid("{}: lines are HOST slots=N, not \"{}\"", path, line);
      }
      COLLA_TRY_ASSIGN(host.slots, parseSlots(std::string_view(word).substr(6), path));
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

}  // namespace colla::launch
