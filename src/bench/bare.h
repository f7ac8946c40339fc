// The limit: processes that add in shared memory, with no library around it.
//
// Allreduce only. Each rank adds its 1/np of the elements over all ranks' buffers and writes the
// sum to all of them, between two spin barriers: no copy, no call into the kernel, no checks.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/agent.h"
#include "colla/status.h"

namespace colla::bench {

// Memory that processes forked after its creation share; gone with the last of them.
class BareMemory {
 public:
  // Room for `np` buffers of up to `bytes`. Pages are taken when they are first written.
  static Result<std::shared_ptr<BareMemory>> create(int np, std::size_t bytes);
  ~BareMemory();
  BareMemory(const BareMemory&) = delete;
  BareMemory& operator=(const BareMemory&) = delete;

  int np() const { return np_; }
  float* buffer(int rank) const;
  struct Arrival;
  Arrival& arrival(int rank) const;

 private:
  BareMemory() = default;
  int np_ = 0;
  std::size_t stride_ = 0;
  std::size_t length_ = 0;
  std::byte* base_ = nullptr;
};

// `memory` must outlive it.
std::unique_ptr<Workload> makeBareWorkload(const BareMemory& memory, int rank);

}  // namespace colla::bench
