// A copy past the caches, for what is too large to be found there when somebody reads it: a plain
// store to memory reads the line first, and pushes out others that are still wanted.
#pragma once

#include <cstddef>

namespace colla::ps {

void streamBytes(std::byte* out, const std::byte* in, std::size_t bytes);

}  // namespace colla::ps
