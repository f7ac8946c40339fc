#include "bench/collective_agents.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <thread>
#include <vector>

#include "colla/bucket.h"
#include "colla/collectives.h"

namespace colla::bench {

// How many barriers a rank has come to. On cache lines of its own: a processor fetches the
// neighbouring line too.
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

class BareWorkload : public CollectiveWorkload {
 public:
  BareWorkload(const BareMemory& memory, int rank)
      : CollectiveWorkload(rank, memory.np()),
        memory_(memory),
        crowded_(memory.np() > static_cast<int>(std::thread::hardware_concurrency())) {
    for (int peer = 0; peer < memory.np(); ++peer) buffers_.push_back(memory.buffer(peer));
  }

  Status makeBuffers() override {
    if (point().operation != Operation::kAllreduce) {
      return {StatusCode::kUnsupported, "the bare loop does allreduce only"};
    }
    elements_ = point().elements;
    // Cut at cache lines, so that no two ranks write to one.
    constexpr std::size_t kLine = 64 / sizeof(float);
    const std::size_t lines = (elements_ + kLine - 1) / kLine;
    const auto cut = [&](int part) { return std::min(elements_, lines * part / np() * kLine); };
    begin_ = cut(rank());
    end_ = cut(rank() + 1);
    return {};
  }

  std::span<float> input() override { return {buffers_[rank()], elements_}; }
  std::span<float> output() override { return input(); }

  Status barrier() override {
    meet();
    return {};
  }

  Status run(long iterations) override {
    for (long i = 0; i < iterations; ++i) {
      meet();  // All numbers are there.
      add_(buffers_, begin_, end_);
      meet();  // All sums are there.
    }
    return {};
  }

 private:
  void meet() {
    const std::uint64_t mine = ++barriers_;
    memory_.arrival(rank()).count.store(mine, std::memory_order_release);
    for (int peer = 0; peer < np(); ++peer) {
      while (memory_.arrival(peer).count.load(std::memory_order_acquire) < mine) {
        if (crowded_) sched_yield();  // The rank that is awaited may need this very core.
      }
    }
  }

  const BareMemory& memory_;
  const bool crowded_;
  const Add add_ = bestAdd();
  std::vector<float*> buffers_;
  std::size_t elements_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t barriers_ = 0;
};

// In a Bucket or in private memory.
class Floats {
 public:
  Status allocate(Job& job, bool privateBuffers, std::size_t elements) {
    bucket_ = Bucket();  // The old one goes before the new one comes.
    private_ = {};
    if (elements == 0) return {};
    if (privateBuffers) {
      private_.resize(elements);
      return {};
    }
    COLLA_TRY_ASSIGN(bucket_, job.allocate(elements * sizeof(float)));
    return {};
  }
  std::span<float> first(std::size_t elements) {
    return private_.empty() ? bucket_.as<float>().first(elements) : std::span(private_);
  }

 private:
  Bucket bucket_;
  std::vector<float> private_;
};

class CollaWorkload : public CollectiveWorkload {
 public:
  CollaWorkload(Job& job, bool privateBuffers)
      : CollectiveWorkload(job.rank(), job.size()),
        job_(job),
        group_(job.world()),
        private_(privateBuffers) {}

  Status makeBuffers() override {
    const std::size_t inputs = point().inputs(np());
    const std::size_t outputs = point().outputs(np());
    COLLA_TRY(inputs_.allocate(job_, private_, inputs));
    COLLA_TRY(outputs_.allocate(job_, private_, point().inPlace() ? 0 : outputs));
    input_ = inputs_.first(inputs);
    output_ = point().inPlace() ? input_ : outputs_.first(outputs);
    return {};
  }
  std::span<float> input() override { return input_; }
  std::span<float> output() override { return output_; }

  Status barrier() override { return colla::barrier(group_); }

  Status run(long iterations) override {
    switch (point().operation) {
      case Operation::kAllreduce:
        return repeat(iterations, [this] { return allreduce(group_, input_); });
      case Operation::kBroadcast:
        return repeat(iterations, [this] { return broadcast(group_, input_, 0); });
      case Operation::kReduce:
        return repeat(iterations, [this] { return reduce(group_, input_, output_, 0); });
      case Operation::kReduceScatter:
        return repeat(iterations, [this] { return reduceScatter(group_, input_, output_); });
      case Operation::kAllgather:
        return repeat(iterations, [this] { return allgather(group_, input_, output_); });
      case Operation::kAlltoall:
        return repeat(iterations, [this] { return alltoall(group_, input_, output_); });
      case Operation::kBarrier:
        return repeat(iterations, [this] { return colla::barrier(group_); });
    }
    return {};
  }

 private:
  template <typename Call>
  static Status repeat(long iterations, const Call& call) {
    for (long i = 0; i < iterations; ++i) COLLA_TRY(call());
    return {};
  }

  Job& job_;
  Group& group_;
  const bool private_;
  Floats inputs_;
  Floats outputs_;
  std::span<float> input_;
  std::span<float> output_;
};

}  // namespace

Status CollectiveWorkload::prepare(const std::string& what) {
  std::istringstream words(what);
  std::string name;
  std::size_t elements = 0;
  words >> name >> elements;
  COLLA_TRY_ASSIGN(const Operation operation, parseOperation(name));
  point_ = {operation, elements};
  return makeBuffers();
}

Result<double> CollectiveWorkload::verify(long iterations) {
  const auto values = input();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = inputValue(rank_, i);
  COLLA_TRY(run(iterations));
  COLLA_TRY(checkOutput(point_, rank_, np_, output()));
  // Zeros stay zeros however often they are added, and cost as much as other numbers. No rank may
  // clear its buffers while a slower one still reads them.
  COLLA_TRY(barrier());
  std::ranges::fill(input(), 0.0F);
  std::ranges::fill(output(), 0.0F);
  COLLA_TRY(barrier());
  return 0.0;
}

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

std::unique_ptr<Workload> makeCollaWorkload(Job& job, bool privateBuffers) {
  return std::make_unique<CollaWorkload>(job, privateBuffers);
}

}  // namespace colla::bench
