// What counting costs: allreduces of 1 KiB between two ranks of one host, as they are and with the
// work of their counters done once more, in alternating rounds.
//
//   collective_metrics_benchmark [ROUNDS]
//
// Prints the fastest tenth of the rounds of each kind and the difference in percent, which is the
// share that the counters have in an allreduce. Not a test: on a busy machine it says nothing.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/metric_families.h"
#include "colla/job.h"
#include "collective/call_metrics.h"

using namespace colla;

namespace {

constexpr int kCalls = 2000;  // Per round.
constexpr std::size_t kFloats = 256;

using Clock = std::chrono::steady_clock;

// The rounds of one rank, in nanoseconds per call: even ones as they are, odd ones counted twice.
std::vector<double> measure(Job& job, int rounds) {
  auto bucket = job.allocate(kFloats * sizeof(float));
  const auto data = bucket->as<float>();
  std::ranges::fill(data, 0.0F);
  collective::CallMetrics calls;
  metrics::Counter waits(metrics::family("colla_wait_seconds_total"), {"nobody"});
  const transport::Call call = collective::encode({.operation = collective::Operation::kAllreduce,
                                                   .type = DataType::kFloat32,
                                                   .count = kFloats});
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    if (!barrier(job.world()).ok()) std::abort();
    const auto began = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      if (!allreduce(job.world(), data).ok()) std::abort();
      if (round % 2 == 0) continue;
      // As GroupCore::begin(), GroupCore::end() and Board::awaitCounter() do.
      calls.end(call, calls.begin(call), true);
      waits.add(std::chrono::nanoseconds(1));
    }
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - began).count() /
                    kCalls);
  }
  return times;
}

double fastest(const std::vector<double>& times, std::size_t parity) {
  std::vector<double> some;
  for (std::size_t i = parity; i < times.size(); i += 2) some.push_back(times[i]);
  std::ranges::sort(some);
  return some[some.size() / 10];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = 2 * std::max(argc > 1 ? std::atoi(argv[1]) : 200, 5);
  auto jobs = Job::inThreads(2);
  if (!jobs.ok()) {
    fmt::print(stderr, "{}\n", toString(jobs.status()));
    return 1;
  }
  std::vector<double> times;
  std::thread other([&] { measure(*(*jobs)[1], rounds); });
  times = measure(*(*jobs)[0], rounds);
  other.join();
  const double once = fastest(times, 0);
  const double twice = fastest(times, 1);
  fmt::print(
      "allreduce of 1 KiB, 2 ranks: {:.0f} ns; counted twice: {:.0f} ns; difference {:.2f} %\n",
      once, twice, 100 * (twice - once) / once);
  return 0;
}
