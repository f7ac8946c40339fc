#include "launch/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>

#include "base/unique_fd.h"

namespace colla::launch {
namespace {

struct Entry {
  ProcessId id;
  pid_t parent = 0;
};

// What /proc says of a process behind its name: "pid (name) state ppid …". The name may hold
// anything, the last parenthesis ends it.
std::string readStat(const std::string& process) {
  const UniqueFd file(open(("/proc/" + process + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  if (!file.valid() || read(file.get(), text.data(), text.size() - 1) <= 0) return {};
  const std::string_view all(text.data());
  const auto close = all.rfind(')');
  return close == std::string_view::npos ? std::string() : std::string(all.substr(close + 1));
}

std::optional<Entry> readEntry(pid_t pid) {
  Entry entry;
  entry.id.pid = pid;
  // The start time is the 20th field.
  const int read = std::sscanf(readStat(std::to_string(pid)).c_str(),
                               " %*c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                               "%*s %*s %*s %llu",
                               &entry.parent, &entry.id.startTime);
  if (read != 2) return std::nullopt;
  return entry;
}

std::vector<Entry> allProcesses() {
  std::vector<Entry> entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (folder == nullptr) return entries;
  while (const dirent* item = readdir(folder.get())) {
    const std::string_view name(item->d_name);
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (auto entry = readEntry(pid)) entries.push_back(*entry);
  }
  return entries;
}

// Kills that very process, whatever its number means by now.
void kill9(const ProcessId& id) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, id.pid, 0)));
  if (!process.valid()) return;
  const auto entry = readEntry(id.pid);
  if (!entry || entry->id != id) return;
  syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

}  // namespace

std::span<char> ownCommandLine() {
  // Where it begins and ends are the 46th and 47th field.
  std::istringstream fields(readStat("self"));
  std::string skipped;
  for (int i = 1; i < 46; ++i) fields >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return {};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel tells an address.
  return {reinterpret_cast<char*>(begin), end - begin};
}

std::vector<ProcessId> descendantsOf(pid_t root, const std::set<ProcessId>& spared) {
  std::unordered_map<pid_t, std::vector<ProcessId>> childrenOf;
  for (const Entry& entry : allProcesses()) {
    if (!spared.contains(entry.id)) childrenOf[entry.parent].push_back(entry.id);
  }
  std::vector<ProcessId> found = childrenOf[root];
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& children = childrenOf[found[i].pid];
    found.insert(found.end(), children.begin(), children.end());
  }
  return found;
}

std::vector<ProcessId> endDescendants(const std::set<ProcessId>& spared, Deadline deadline,
                                      const std::function<void(pid_t, int)>& reaped) {
  int pauseMs = 1;
  for (;;) {
    int status = 0;
    while (const pid_t pid = waitpid(-1, &status, WNOHANG)) {
      if (pid < 0) break;
      reaped(pid, status);
    }
    auto alive = descendantsOf(getpid(), spared);
    if (alive.empty() || deadline.expired()) return alive;
    for (const ProcessId& id : alive) kill9(id);
    // Death takes the kernel a moment, and its news come without a descriptor to wait on for
    // processes that are not our children yet.
    poll(nullptr, 0, pauseMs);
    pauseMs = std::min(pauseMs * 2, 50);
  }
}

}  // namespace colla::launch
