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

}  // namespace colla::job
