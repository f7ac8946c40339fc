// Memory of boards that groups have given up, for the boards of later groups: to reserve it anew
// takes a millisecond or more, as a board has 2 MiB.
//
// Other ranks may still read a board when its rank has left the group. So what a group gives back
// rests, until somebody who knows that all processes have met since then puts it into stock.
//
// Thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"
#include "colla/status.h"
#include "transport/shared_memory.h"

namespace colla::collective {

class BoardShelf {
 public:
  using Regions = std::vector<transport::Mapping>;

  // `bytes` from stock, with what a former group wrote there, or else new and zeroed.
  Result<transport::Mapping> take(transport::SharedMemory& memory, std::size_t bytes) {
    {
      const MutexLock lock(mutex_);
      const auto found = std::ranges::find_if(
          stock_, [&](const auto& region) { return region.bytes.size() == bytes; });
      if (found != stock_.end()) {
        transport::Mapping region = std::move(*found);
        stock_.erase(found);
        return region;
      }
    }
    return memory.allocate(bytes);
  }

  void giveBack(transport::Mapping region) {
    const MutexLock lock(mutex_);
    if (resting_.size() < kMost) resting_.push_back(std::move(region));
  }

  // Before all processes meet: what rests by now. After that: put it into stock.
  Regions takeResting() {
    const MutexLock lock(mutex_);
    return std::exchange(resting_, {});
  }
  void stock(Regions regions) {
    const MutexLock lock(mutex_);
    std::ranges::move(regions, std::back_inserter(stock_));
    if (stock_.size() > kMost) stock_.resize(kMost);
  }

 private:
  // An epoch has two groups; what is more than that and some subgroups' is freed.
  static constexpr std::size_t kMost = 4;

  Mutex mutex_;
  Regions resting_ COLLA_GUARDED_BY(mutex_);
  Regions stock_ COLLA_GUARDED_BY(mutex_);
};

}  // namespace colla::collective
