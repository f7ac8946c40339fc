#include "bench/bare.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace colla::bench {

// How many barriers a rank has come to. On cache lines of its own: the neighbour is fetched too.
struct alignas(128) BareMemory::Arrival {
  std::atomic<std::uint64_t> count;
};

namespace {

constexpr std::size_t kPage = 4096;

std::size_t roundedToPage(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The sum of all buffers' elements [begin, end), into all of them. For two it is one pass whose
// loads and stores are all streams; more are added in blocks that stay in the first cache.
__attribute__((always_inline)) inline void addElements(std::span<float* const> buffers,
                                                       std::size_t begin, std::size_t end) {
  if (buffers.size() == 2) {
    float* __restrict a = buffers[0];
    float* __restrict b = buffers[1];
    for (std::size_t i = begin; i < end; ++i) a[i] = b[i] = a[i] + b[i];
    return;
  }
  constexpr std::size_t kBlock = 1024;
  alignas(64) float sum[kBlock];
  for (std::size_t block = begin; block < end; block += kBlock) {
    const std::size_t count = std::min(kBlock, end - block);
    std::memcpy(sum, buffers[0] + block, count * sizeof(float));
    for (float* buffer : buffers.subspan(1)) {
      for (std::size_t i = 0; i < count; ++i) sum[i] += buffer[block + i];
    }
    for (float* buffer : buffers) std::memcpy(buffer + block, sum, count * sizeof(float));
  }
}

using Add = void (*)(std::span<float* const> buffers, std::size_t begin, std::size_t end);

void addPlain(std::span<float* const> buffers, std::size_t begin, std::size_t end) {
  addElements(buffers, begin, end);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void addAvx2(std::span<float* const> buffers, std::size_t begin,
                                             std::size_t end) {
  addElements(buffers, begin, end);
}
Add bestAdd() { return __builtin_cpu_supports("avx2") != 0 ? addAvx2 : addPlain; }
#else
Add bestAdd() { return addPlain; }
#endif

class BareWorkload : public Workload {
 public:
  BareWorkload(const BareMemory& memory, int rank)
      : memory_(memory),
        rank_(rank),
        crowded_(memory.np() > static_cast<int>(std::thread::hardware_concurrency())) {
    for (int peer = 0; peer < memory.np(); ++peer) buffers_.push_back(memory.buffer(peer));
  }

  Status prepare(const Point& point) override {
    if (point.operation != Operation::kAllreduce) {
      return {StatusCode::kUnsupported, "the bare loop does allreduce only"};
    }
    elements_ = point.elements;
    // Cut at cache lines, so that no two ranks write to one.
    constexpr std::size_t kLine = 64 / sizeof(float);
    const std::size_t lines = (elements_ + kLine - 1) / kLine;
    const auto cut = [&](int rank) {
      return std::min(elements_, lines * rank / memory_.np() * kLine);
    };
    begin_ = cut(rank_);
    end_ = cut(rank_ + 1);
    return {};
  }

  std::span<float> input() override { return {buffers_[rank_], elements_}; }
  std::span<float> output() override { return input(); }

  Status barrier() override {
    meet();
    return {};
  }

  Status run(long iterations) override {
    for (long i = 0; i < iterations; ++i) {
      meet();  // Everybody's numbers are there.
      add_(buffers_, begin_, end_);
      meet();  // Everybody's sums are there.
    }
    return {};
  }

 private:
  void meet() {
    const std::uint64_t mine = ++barriers_;
    memory_.arrival(rank_).count.store(mine, std::memory_order_release);
    for (int peer = 0; peer < memory_.np(); ++peer) {
      while (memory_.arrival(peer).count.load(std::memory_order_acquire) < mine) {
        if (crowded_) sched_yield();  // The rank that is awaited may need this very core.
      }
    }
  }

  const BareMemory& memory_;
  const int rank_;
  const bool crowded_;
  const Add add_ = bestAdd();
  std::vector<float*> buffers_;
  std::size_t elements_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t barriers_ = 0;
};

}  // namespace

Result<std::shared_ptr<BareMemory>> BareMemory::create(int np, std::size_t bytes) {
  std::shared_ptr<BareMemory> memory(new BareMemory);
  memory->np_ = np;
  memory->stride_ = roundedToPage(bytes);
  memory->length_ = roundedToPage(np * sizeof(Arrival)) + np * memory->stride_;
  void* base = mmap(nullptr, memory->length_, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return {StatusCode::kNoMemory, fmt::format("bare: no {} bytes of shared memory: {}",
                                               memory->length_, std::strerror(errno))};
  }
  memory->base_ = static_cast<std::byte*>(base);
  return memory;
}

BareMemory::~BareMemory() {
  if (base_ != nullptr) munmap(base_, length_);
}

BareMemory::Arrival& BareMemory::arrival(int rank) const {
  return reinterpret_cast<Arrival*>(base_)[rank];
}

float* BareMemory::buffer(int rank) const {
  std::byte* const first = base_ + roundedToPage(np_ * sizeof(Arrival));
  return reinterpret_cast<float*>(first + rank * stride_);
}

std::unique_ptr<Workload> makeBareWorkload(const BareMemory& memory, int rank) {
  return std::make_unique<BareWorkload>(memory, rank);
}

}  // namespace colla::bench
