// Which of the decided operations travel together.
#pragma once

#include <cstddef>
#include <vector>

#include "named/announcement.h"

namespace colla::named {

// Packs allreduces of the same type, reduction, factors and set into batches of at most `most`
// bytes; everything else is a batch of its own. Operations that are due at the same time may change
// places, but nothing passes what concerns the exchange itself (joins, sets) or an error.
std::vector<Batch> planFusion(std::vector<Decision> decisions, std::size_t most);

// Where the parts of a batch lie in its buffer: each starts on a cache line.
std::size_t paddedBytes(const Announcement& what);

}  // namespace colla::named
