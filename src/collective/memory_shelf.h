// Shared memory that an epoch's groups and buckets have given up, for those of the next epoch. To
// reserve a megabyte anew and to map it in every process takes a millisecond, and there are several
// in each process.
//
// Other processes may still read what its owner has given up. So it rests, until somebody who knows
// that all processes have met since then puts it into stock.
//
// Thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"
#include "colla/status.h"
#include "transport/shared_memory.h"

namespace colla::collective {

class MemoryShelf {
 public:
  using Regions = std::vector<transport::Mapping>;

  // `bytes` from stock, with what its former owner wrote there, or else new and zeroed.
  Result<transport::Mapping> take(transport::SharedMemory& memory, std::size_t bytes) {
    if (auto region = fromStock(bytes)) return *std::move(region);
    return memory.allocate(bytes);
  }
  // The same, zeroed in any case.
  Result<transport::Mapping> takeZeroed(transport::SharedMemory& memory, std::size_t bytes) {
    if (auto region = fromStock(bytes)) {
      std::ranges::fill(region->bytes, std::byte{0});
      return *std::move(region);
    }
    return memory.allocate(bytes);
  }

  void giveBack(transport::Mapping region) {
    const MutexLock lock(mutex_);
    add(resting_, std::move(region));
  }

  // Before all processes meet: what rests by now. After that: put it into stock.
  Regions takeResting() {
    const MutexLock lock(mutex_);
    return std::exchange(resting_, {});
  }
  void stock(Regions regions) {
    const MutexLock lock(mutex_);
    for (transport::Mapping& region : regions) add(stock_, std::move(region));
  }

 private:
  // A job whose workers never change wastes as much. What is more is freed.
  static constexpr std::size_t kMostRegions = 16;
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  static void add(Regions& regions, transport::Mapping region) {
    std::size_t bytes = region.bytes.size();
    for (const transport::Mapping& kept : regions) bytes += kept.bytes.size();
    if (regions.size() < kMostRegions && bytes <= kMostBytes) regions.push_back(std::move(region));
  }

  std::optional<transport::Mapping> fromStock(std::size_t bytes) {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find_if(
        stock_, [&](const auto& region) { return region.bytes.size() == bytes; });
    if (found == stock_.end()) return std::nullopt;
    transport::Mapping region = std::move(*found);
    stock_.erase(found);
    return region;
  }

  Mutex mutex_;
  Regions resting_ COLLA_GUARDED_BY(mutex_);
  Regions stock_ COLLA_GUARDED_BY(mutex_);
};

}  // namespace colla::collective
