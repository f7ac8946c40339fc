#include "job/cpu.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <thread>

namespace colla::job {

std::string cpuFeatures() {
  utsname system{};
  std::string text = uname(&system) == 0 ? system.machine : "unknown";
#if defined(__x86_64__)
  const auto add = [&text](bool has, const char* name) {
    if (has) text += std::string(" ") + name;
  };
  // MKL has other code for each of them, and models choose a library by it.
  add(__builtin_cpu_is("intel") != 0, "intel");
  add(__builtin_cpu_is("amd") != 0, "amd");
  add(__builtin_cpu_supports("sse4.2"), "sse4.2");
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
#endif
  return text;
}

int usableCpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return std::max(1, CPU_COUNT(&cpus));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Slurm binds each task to CPUs of its own where the cluster says so (task/affinity), and otherwise
// leaves all of the allocation to every task. Either way no task is to use more than its number.
int cpusForOne(int localSize, int own, int usable) {
  if (own > 0) return std::min(own, usable);
  return std::max(1, usable / std::max(1, localSize));
}

bool hasCoresForAll(int localSize, int own, int usable) {
  const bool bound = own > 0 && usable <= own;  // The others have CPUs of their own.
  return bound || localSize <= usable;
}

}  // namespace colla::job
