// Shared memory between threads: all of it.
#pragma once

#include <memory>

#include "base/thread_annotations.h"
#include "transport/options.h"
#include "transport/shared_memory.h"

namespace colla::transport::inproc {

struct Board;

// A place is an address. Every address of the process can be found, not only what was allocated;
// only what was allocated is kept alive by a mapping.
class InprocMemory final : public SharedMemory {
 public:
  InprocMemory(const Options& options, Board& board) : options_(options), board_(board) {}

  Result<Mapping> allocate(std::size_t bytes) override;
  Place find(std::span<const std::byte> data) const override;
  Result<Mapping> map(int peer, Place place, std::size_t bytes, Deadline deadline) override;
  void notify(std::span<const int> peers) override;
  using SharedMemory::wait;
  Status wait(std::span<const int> peers, Ready ready, const void* context, Deadline deadline,
              std::chrono::nanoseconds& waited) override;

 private:
  const Options& options_;
  Board& board_;
};

}  // namespace colla::transport::inproc
