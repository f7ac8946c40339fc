// Our own agents of `colla bench collectives`: Colla, and the bare loop that is the limit.
// `prepare` is followed by OPERATION ELEMENTS.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "bench/agent.h"
#include "bench/operation.h"
#include "colla/job.h"
#include "colla/status.h"

namespace colla::bench {

// A rank that does one operation over and over. It checks the result by the rules of operation.h.
class CollectiveWorkload : public Workload {
 public:
  CollectiveWorkload(int rank, int np) : rank_(rank), np_(np) {}
  Status prepare(const std::string& what) final;
  Result<double> verify(long iterations) final;

 protected:
  // Makes input() and output() for point(), the same memory where the point is in place.
  virtual Status makeBuffers() = 0;
  virtual std::span<float> input() = 0;
  virtual std::span<float> output() = 0;

  const Point& point() const { return point_; }
  int rank() const { return rank_; }
  int np() const { return np_; }

 private:
  const int rank_;
  const int np_;
  Point point_;
};

// The limit: processes that add in shared memory, with no library around it. Each rank adds its
// 1/np of the elements over all ranks' buffers and writes the sum to all of them, between two spin
// barriers: no copy, no call into the kernel, no checks. Allreduce only.

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

// Colla, through the public interface, as a user's program would call it. Buffers are Buckets,
// which collectives reduce where they lie, or private memory that Colla knows nothing of. `job`
// must outlive it.
std::unique_ptr<Workload> makeCollaWorkload(Job& job, bool privateBuffers);

}  // namespace colla::bench
