#include "bench/colla_workload.h"

#include <vector>

#include "colla/bucket.h"
#include "colla/collectives.h"

namespace colla::bench {
namespace {

// Floats of either kind.
class Memory {
 public:
  Status allocate(Job& job, Buffers buffers, std::size_t elements) {
    bucket_ = Bucket();  // The old one goes before the new one comes.
    private_ = {};
    if (elements == 0) return {};
    if (buffers == Buffers::kPrivate) {
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

class CollaWorkload : public Workload {
 public:
  CollaWorkload(Job& job, Buffers buffers) : job_(job), group_(job.world()), buffers_(buffers) {}

  Status prepare(const Point& point) override {
    point_ = point;
    const int np = group_.size();
    COLLA_TRY(inputs_.allocate(job_, buffers_, point.inputs(np)));
    COLLA_TRY(outputs_.allocate(job_, buffers_, point.inPlace() ? 0 : point.outputs(np)));
    input_ = inputs_.first(point.inputs(np));
    output_ = point.inPlace() ? input_ : outputs_.first(point.outputs(np));
    return {};
  }
  std::span<float> input() override { return input_; }
  std::span<float> output() override { return output_; }

  Status barrier() override { return colla::barrier(group_); }

  Status run(long iterations) override {
    switch (point_.operation) {
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
  const Buffers buffers_;
  Point point_;
  Memory inputs_;
  Memory outputs_;
  std::span<float> input_;
  std::span<float> output_;
};

}  // namespace

std::unique_ptr<Workload> makeCollaWorkload(Job& job, Buffers buffers) {
  return std::make_unique<CollaWorkload>(job, buffers);
}

}  // namespace colla::bench
