#include "job/freed_memory.h"

#include <limits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace colla::job {

void keepFreedMemory(const Config& config) {
#ifdef __GLIBC__
  if (config.integer("keep_memory") == 1) {
    constexpr int kMost = std::numeric_limits<int>::max();
    mallopt(M_TRIM_THRESHOLD, kMost);
    mallopt(M_MMAP_THRESHOLD, kMost);
  }
#endif
}

}  // namespace colla::job
