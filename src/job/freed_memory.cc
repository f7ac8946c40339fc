#include "job/freed_memory.h"

#include <limits>

#include "base/invalid.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace colla::job {

Status keepFreedMemory(const Config& config) {
  const auto wanted = config.integer("keep_memory");
  if (wanted != 0 && wanted != 1) {
    return invalid("{} is {}, but takes 0 or 1", config.origin("keep_memory"), wanted);
  }
#ifdef __GLIBC__
  if (wanted == 1) {
    constexpr int kMost = std::numeric_limits<int>::max();
    mallopt(M_TRIM_THRESHOLD, kMost);
    mallopt(M_MMAP_THRESHOLD, kMost);
  }
#endif
  return {};
}

}  // namespace colla::job
