#include "study/sampler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace colla::study {
namespace {

double ownSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Files of /proc are small and made when they are read: all at once, or not at all.
std::string textOf(const std::string& path) {
  std::string text;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return text;
  char buffer[8192];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof(buffer), file)) > 0;) {
    text.append(buffer, count);
  }
  std::fclose(file);
  return text;
}

// The number behind `name` in lines such as "Pss:   123 kB".
double field(const std::string& text, const std::string& name) {
  const auto at = text.find(name);
  return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + name.size(), nullptr);
}

std::string variable(const std::string& environment, const std::string& name) {
  std::size_t at = 0;
  while (at < environment.size()) {
    const std::string entry = environment.c_str() + at;
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    at += entry.size() + 1;
  }
  return "";
}

std::vector<pid_t> childrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code error;
  std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", pid), error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    std::istringstream text(textOf(thread->path() / "children"));
    for (pid_t child = 0; text >> child;) children.push_back(child);
  }
  return children;
}

struct Stat {
  unsigned long long startTime = 0;
  double user = 0;
  double system = 0;
  double resident = 0;
  double faults = 0;
};

// "pid (name) state ppid …": the name may hold anything, the last parenthesis ends it.
bool readStatOf(pid_t pid, Stat& stat) {
  const std::string text = textOf(fmt::format("/proc/{}/stat", pid));
  const auto close = text.rfind(')');
  if (close == std::string::npos) return false;
  unsigned long long minor = 0;
  unsigned long long major = 0;
  unsigned long long user = 0;
  unsigned long long system = 0;
  long long pages = 0;
  const int read = std::sscanf(text.c_str() + close + 1,
                               " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu %*d %*d "
                               "%*d %*d %*d %*d %llu %*u %lld",
                               &minor, &major, &user, &system, &stat.startTime, &pages);
  if (read != 6) return false;
  static const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  stat.user = static_cast<double>(user) / ticks;
  stat.system = static_cast<double>(system) / ticks;
  stat.resident = static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
  stat.faults = static_cast<double>(minor + major);
  return true;
}

// Those of all threads: the process's own file has those of its first thread alone.
double switchesOf(pid_t pid) {
  double sum = 0;
  std::error_code error;
  std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", pid), error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const std::string status = textOf(thread->path() / "status");
    sum += field(status, "\nvoluntary_ctxt_switches:") +
           field(status, "\nnonvoluntary_ctxt_switches:");
  }
  return sum;
}

HostSample readHost() {
  HostSample host;
  std::istringstream stat(textOf("/proc/stat"));
  std::string word;
  stat >> word;
  double value = 0;
  for (int column = 0; column < 8 && stat >> value; ++column) {
    const bool idle = column == 3 || column == 4;  // Idle, and waiting for a disk.
    if (!idle) host.busy += value / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  std::istringstream net(textOf("/proc/net/dev"));
  for (std::string line; std::getline(net, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    double in = 0;
    double out = 0;
    if (std::sscanf(line.c_str() + colon + 1, "%lf %*f %*f %*f %*f %*f %*f %*f %lf", &in, &out) !=
        2) {
      continue;
    }
    const bool loopback = line.substr(0, colon).ends_with("lo");
    // What goes through the loopback interface goes in and out of it, and counts once.
    if (loopback) host.loopback += in;
    if (!loopback) host.network += in + out;
  }
  return host;
}

}  // namespace

Sampler::Sampler(pid_t root, std::string rootRole) : root_(root), rootRole_(std::move(rootRole)) {}

void Sampler::find() {
  std::vector<pid_t> next = {root_};
  while (!next.empty()) {
    const pid_t pid = next.back();
    next.pop_back();
    for (const pid_t child : childrenOf(pid)) next.push_back(child);
    Stat stat;
    if (!readStatOf(pid, stat)) continue;
    const auto found = known_.find(pid);
    if (found != known_.end() && found->second.startTime == stat.startTime) {
      // A process that has just been forked has its parent's environment until it becomes another.
      if (found->second.role == "ps" || found->second.role == "worker") continue;
    }
    Known known;
    known.startTime = stat.startTime;
    const std::string environment = textOf(fmt::format("/proc/{}/environ", pid));
    const std::string role = variable(environment, "COLLA_ROLE");
    const std::string rank = variable(environment, "COLLA_RANK");
    known.role = !role.empty() ? role : !rank.empty() ? "worker" : rootRole_;
    known.rank = rank.empty() ? 0 : std::atoi(rank.c_str());
    if (found != known_.end() && found->second.startTime == stat.startTime)
      known.last = found->second.last;
    known_[pid] = known;
  }
}

bool Sampler::read(pid_t pid, Known& known, bool thorough) const {
  Stat stat;
  if (!readStatOf(pid, stat) || stat.startTime != known.startTime) return false;
  known.last.user = stat.user;
  known.last.system = stat.system;
  known.last.resident = stat.resident;
  known.last.faults = stat.faults;
  if (thorough) {
    known.last.proportional =
        1024 * field(textOf(fmt::format("/proc/{}/smaps_rollup", pid)), "\nPss:");
    known.last.switches = switchesOf(pid);
  }
  return true;
}

pid_t Sampler::processOf(const std::string& role, int rank) const {
  for (const auto& [pid, known] : known_) {
    if (known.role == role && known.rank == rank) return pid;
  }
  return 0;
}

void Sampler::sample(double seconds, bool thorough) {
  const double before = ownSeconds();
  if (thorough || known_.size() < 2) find();
  std::map<Place, UseSample> sums = ended_;
  for (auto entry = known_.begin(); entry != known_.end();) {
    Known& known = entry->second;
    const bool lives = read(entry->first, known, thorough || known.last.proportional == 0);
    const auto add = [&](UseSample& sum) {
      sum.user += known.last.user;
      sum.system += known.last.system;
      sum.switches += known.last.switches;
      sum.faults += known.last.faults;
    };
    UseSample& sum = sums[{known.role, known.rank}];
    add(sum);
    if (lives) {
      sum.resident += known.last.resident;
      sum.proportional += known.last.proportional;
      ++entry;
    } else {
      add(ended_[{known.role, known.rank}]);
      entry = known_.erase(entry);
    }
  }
  for (auto& [place, sum] : sums) {
    sum.seconds = seconds;
    sum.role = place.first;
    sum.rank = place.second;
    uses_.push_back(sum);
  }
  HostSample host = readHost();
  host.seconds = seconds;
  host_.push_back(host);
  cost_ += ownSeconds() - before;
}

}  // namespace colla::study
