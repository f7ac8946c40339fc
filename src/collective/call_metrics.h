// What the collectives of one group have cost, by operation.
//
// Between two ranks of one host an allreduce of 1 KiB takes less than half a microsecond, and to
// read the clock twice would be a tenth of that. So of small calls one in kPeriod is timed, and
// those that follow count as long as it took: the number of calls is exact, their time is an
// estimate. The period is a prime, because programs repeat themselves: every call of a step gets
// its turn.
//
// Not thread safe: the group's lock guards it.
#pragma once

#include <array>
#include <chrono>
#include <optional>

#include "base/deadline.h"
#include "base/metrics.h"
#include "collective/call.h"

namespace colla::collective {

class CallMetrics {
 public:
  static constexpr std::uint64_t kSmall = 8192;  // Bytes.
  static constexpr int kPeriod = 17;

  // The time if this call is to be timed, else zero.
  TimePoint begin(const transport::Call& call) {
    auto& operation = operations_[call.operation];
    if (!operation) operation.emplace(static_cast<Operation>(call.operation));
    if (bytesOf(call) <= kSmall && --operation->untimed > 0) return {};
    operation->untimed = kPeriod;
    return std::chrono::steady_clock::now();
  }
  // With what begin() gave.
  void end(const transport::Call& call, TimePoint began, bool well) {
    PerOperation& operation = *operations_[call.operation];
    if (began != TimePoint{}) operation.last = std::chrono::steady_clock::now() - began;
    operation.seconds.observe(operation.last);
    operation.bytes.add(bytesOf(call));
    if (!well) operation.failures.add();
  }

 private:
  static std::uint64_t bytesOf(const transport::Call& call) {
    return call.count * sizeOf(static_cast<DataType>(call.type));
  }
  struct PerOperation {
    explicit PerOperation(Operation operation);
    metrics::Histogram seconds;
    metrics::Counter bytes;
    metrics::Counter failures;
    int untimed = 0;  // Calls until the next one that is timed, which is one of them.
    std::chrono::nanoseconds last{};  // What the last one that was timed took.
  };
  // Of those that the group has been asked for.
  std::array<std::optional<PerOperation>, kOperationCount> operations_;
};

}  // namespace colla::collective
