#include "bench/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "transport/shm/segment.h"

namespace colla::bench {
namespace {

// Jiffies that this machine's cores have spent, all in all and not idle.
struct CpuTime {
  double all = 0;
  double busy = 0;

  static CpuTime now() {
    CpuTime time;
    std::ifstream stat("/proc/stat");
    std::string cpu;
    stat >> cpu;
    double value = 0;
    for (int column = 0; column < 8 && stat >> value; ++column) {
      const bool idle = column == 3 || column == 4;  // Idle, and waiting for a disk.
      time.all += value;
      if (!idle) time.busy += value;
    }
    return time;
  }
};

double coresInUse() {
  const CpuTime before = CpuTime::now();
  usleep(200'000);
  const CpuTime after = CpuTime::now();
  const double cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  return after.all > before.all ? cores * (after.busy - before.busy) / (after.all - before.all) : 0;
}

}  // namespace

Status checkMemory(std::size_t need, const std::string& what, const std::string& advice) {
  const std::size_t have = transport::shm::availableMemory();
  if (need <= have) return {};
  return {StatusCode::kNoMemory,
          fmt::format("{} about {:.1f} GB, and only {:.1f} GB are free: choose {}", what,
                      static_cast<double>(need) / 1e9, static_cast<double>(have) / 1e9, advice)};
}

Result<std::size_t> proportionalSetSize(pid_t process) {
  const std::string name = fmt::format("/proc/{}/smaps_rollup", process);
  std::ifstream rollup(name);
  for (std::string line; std::getline(rollup, line);) {
    std::size_t kilobytes = 0;
    if (std::sscanf(line.c_str(), "Pss: %zu kB", &kilobytes) == 1) return kilobytes * 1024;
  }
  return {StatusCode::kUnsupported, fmt::format("{} does not tell the memory of a process", name)};
}

double cpuSeconds(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  double seconds = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  std::error_code error;
  // Not a range loop, which would throw when the process ends meanwhile.
  std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", process), error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    std::ifstream children(thread->path() / "children");
    for (pid_t child = 0; children >> child;) seconds += cpuSeconds(child);
  }
  return seconds;
}

void warnIfBusy() {
  const double cores = coresInUse();
  if (cores <= 0.25) return;
  fmt::print(stderr, "colla bench: this machine is busy ({:.1f} cores): times are too long\n",
             cores);
}

}  // namespace colla::bench
