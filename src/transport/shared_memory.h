// Memory that the processes of one host see together, and a way to sleep until it changes.
//
// A process allocates regions; its peers map them on first use, by number. Nothing is left of a
// region when the last process that mapped it is gone, however it went.
//
// Waiting is for words in such memory: a writer stores with release order and calls notify(); a
// reader calls wait() with a predicate that loads with acquire order.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/deadline.h"
#include "colla/status.h"

namespace colla::transport {

// A place in a process's shared memory, meaningful to its peers. Plain data: it is itself put
// into shared memory.
struct Place {
  static constexpr std::uint32_t kNowhere = 0;
  std::uint32_t region = kNowhere;  // Numbered from 1 by the process that allocated it.
  std::uint32_t padding = 0;
  std::uint64_t offset = 0;
};

// Memory, seen from here: stays as long as `keep` does, whatever its owner and the transport do.
struct Mapping {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> keep;
};

class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  // A zeroed region of `bytes`, aligned to a page, with its memory reserved: later writes cannot
  // fail. kNoMemory when there is not enough. Once its `keep` is gone it can no longer be mapped;
  // it lives on in the mappings there are.
  virtual Result<Mapping> allocate(std::size_t bytes) = 0;

  // Where `data` lies, if all of it is in one region of this process; kNowhere otherwise.
  virtual Place find(std::span<const std::byte> data) const = 0;
  // The memory at `place` of `peer`, mapped here. The two must have exchanged a message before.
  // kInvalidArgument when it is out of bounds.
  virtual Result<Mapping> map(int peer, Place place, std::size_t bytes, Deadline deadline) = 0;

  // Wakes those of `peers` that sleep in wait(). To be called after the store they wait for.
  virtual void notify(std::span<const int> peers) = 0;

  // Spins, then sleeps, until `ready`. kPeerLost (naming it) when one of `peers` is gone and
  // `ready` does not hold all the same; kTimeout at the deadline, naming nobody: the caller knows
  // whom it waited for. `ready` is called often and must be cheap. Adds to `waited` how long that
  // took; waits below a microsecond or so may count as nothing.
  using Ready = bool (*)(const void* context);
  virtual Status wait(std::span<const int> peers, Ready ready, const void* context,
                      Deadline deadline, std::chrono::nanoseconds& waited) = 0;

  template <typename Predicate>
  Status wait(std::span<const int> peers, const Predicate& predicate, Deadline deadline,
              std::chrono::nanoseconds& waited) {
    return wait(
        peers, [](const void* context) { return (*static_cast<const Predicate*>(context))(); },
        &predicate, deadline, waited);
  }
  template <typename Predicate>
  Status wait(std::span<const int> peers, const Predicate& predicate, Deadline deadline) {
    std::chrono::nanoseconds waited{};
    return wait(peers, predicate, deadline, waited);
  }
};

}  // namespace colla::transport
