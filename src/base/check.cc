#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace colla {

void checkFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "colla: bug: %s does not hold at %s:%d; please report it\n", condition, file,
               line);
  std::abort();
}

}  // namespace colla
