// What this machine has, and what others do on it.
#pragma once

#include <cstddef>

namespace colla::bench {

// Bytes that new processes can have; the largest number where nobody says.
std::size_t availableMemory();

// To be called while nothing of ours runs yet: a line on stderr when others keep cores busy.
void warnIfBusy();

}  // namespace colla::bench
