#include "launch/host_slots.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
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

// "a", "a:2", "[fd00::7]:2".
Result<HostSlots> parseHost(const std::string& word, const std::string& where) {
  HostSlots host;
  std::string_view rest = word;
  if (word.starts_with("[")) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) return invalid("{}: \"{}\" lacks a ]", where, word);
    host.name = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    const auto colon = rest.find(':');
    if (colon != std::string_view::npos && rest.find(':', colon + 1) != std::string_view::npos) {
      return invalid("{}: an IPv6 address needs brackets, as in [{}]:2", where, word);
    }
    host.name = rest.substr(0, colon);
    rest.remove_prefix(std::min(colon, rest.size()));
  }
  if (host.name.find('@') != std::string::npos) {
    return invalid(
        "{}: \"{}\" names a user: say so to ssh, with --ssh-arg=-l{} or in "
        "~/.ssh/config",
        where, host.name, host.name.substr(0, host.name.find('@')));
  }
  // ssh would take the one for a flag, and a shell the others for what they mean to it.
  if (host.name.empty() || host.name.starts_with("-") ||
      host.name.find_first_of(" \t/\\'\"$`;&|<>()*?") != std::string::npos) {
    return invalid("{}: hosts are HOST or HOST:SLOTS, not \"{}\"", where, word);
  }
  if (rest.empty()) return host;
  if (rest.front() != ':')
    return invalid("{}: hosts are HOST or HOST:SLOTS, not \"{}\"", where, word);
  COLLA_TRY_ASSIGN(host.slots, parseSlots(rest.substr(1), where));
  return host;
}

Status add(std::vector<HostSlots>& hosts, HostSlots host, const std::string& where) {
  if (std::ranges::find(hosts, host.name, &HostSlots::name) != hosts.end()) {
    return invalid("{} names host {} twice: give it once, with all of its slots", where, host.name);
  }
  hosts.push_back(std::move(host));
  return {};
}

}  // namespace

Result<std::vector<HostSlots>> parseHostSlots(const std::string& text, const std::string& flag) {
  const std::string where = flag + " " + text;
  std::vector<HostSlots> hosts;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    COLLA_TRY_ASSIGN(HostSlots host, parseHost(word, where));
    COLLA_TRY(add(hosts, std::move(host), where));
  }
  if (hosts.empty()) return invalid("{} names no host", flag);
  return hosts;
}

Result<std::vector<HostSlots>> parseHostFile(const std::string& text, const std::string& path) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    COLLA_TRY_ASSIGN(HostSlots host, parseHost(name, path));
    for (std::string word; words >> word;) {
      // Open MPI's limit for those who want more processes than slots: there are none here.
      if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) continue;
      if (!word.starts_with("slots=")) {
        return invalid("{}: lines are HOST slots=N, not \"{}\"", path, line);
      }
      COLLA_TRY_ASSIGN(host.slots, parseSlots(std::string_view(word).substr(6), path));
    }
    COLLA_TRY(add(hosts, std::move(host), path));
  }
  if (hosts.empty()) return invalid("{} names no host", path);
  return hosts;
}

Result<std::vector<HostSlots>> readHostFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return invalid("can't read the host file {}", path);
  return parseHostFile({std::istreambuf_iterator<char>(file), {}}, path);
}

}  // namespace colla::launch
