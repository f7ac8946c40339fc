#include "observe/memory.h"

#include <fstream>
#include <string>

namespace colla::observe {

std::int64_t peakMemory() {
  // Not getrusage(): its maximum survives exec, so a worker would report its launcher's.
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace colla::observe
