// How much memory this process took.
#pragma once

#include <cstdint>

namespace colla::observe {

// The most bytes that were resident at once since this program started (VmHWM), shared pages
// counted in full; 0 where the kernel does not tell.
std::int64_t peakMemory();

}  // namespace colla::observe
