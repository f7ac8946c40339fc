// What becomes of memory that a program has freed.
#pragma once

#include "base/config.h"
#include "colla/status.h"

namespace colla::job {

// A training step frees all that it took, and the next one takes it again. glibc would give large
// blocks back to the kernel in between, and every page of them would cost a fault in every step:
// has it keep them, unless the setting keep_memory is 0. Counts for the whole process, from then
// on.
void keepFreedMemory(const Config& config);

}  // namespace colla::job
