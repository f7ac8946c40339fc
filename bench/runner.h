// Measures contenders against each other: every round asks each of them in turn, so that what slows
// the machine down for a while slows all of them. All benchmarks use it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "colla/status.h"

namespace colla::bench {

// Processor time of processes and their descendants, by their names.
using CpuTimes = std::map<std::string, double>;
CpuTimes cpuTimes(std::span<const Processes::One> processes);
// after - before, for the processes in `after`.
CpuTimes difference(CpuTimes after, const CpuTimes& before);

struct Timing {
  double seconds = 0;  // Of all iterations.
  CpuTimes cpu = {};   // Taken meanwhile...
  double elapsed = 0;  // ...in so long.
};

// What is measured, at one point.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual const std::string& name() const = 0;
  // Makes everything ready and checks a result. Returns the value by which contenders can be
  // compared, such as a loss.
  virtual Result<double> prepare() = 0;
  virtual Result<Timing> measure(long iterations) = 0;
  // Called once after the last round: what can't be looked at while the time counts.
  virtual Status finish(long /*iterations*/) { return {}; }
};

// Agents of a system that has been started.
class AgentContender : public Contender {
 public:
  struct Options {
    std::string prepare = {};  // What follows "prepare".
    long verifySteps = 1;      // What follows "verify".
    bool independent = false;  // The ranks know nothing of each other: their rates add up.
    bool verifyAgain = false;  // finish() checks that the result is still right.
    bool memory = false;       // finish() watches the memory of the processes.
  };
  AgentContender(Coordinator& coordinator, std::string system, Options options)
      : coordinator_(coordinator), system_(std::move(system)), options_(std::move(options)) {}

  const std::string& name() const override { return system_; }
  Result<double> prepare() override;
  Result<Timing> measure(long iterations) override;
  Status finish(long iterations) override;

  // The most that a process whose name has `role` in it took, in bytes; 0 if there is none.
  std::size_t memory(const std::string& role) const;

 private:
  Result<std::vector<double>> ask(const std::string& line,
                                  const std::function<Status()>& meanwhile = {});
  Status watchMemory(long iterations);

  Coordinator& coordinator_;
  const std::string system_;
  const Options options_;
  std::map<std::string, std::size_t> memory_;  // Proportional set sizes, by process.
};

struct RunnerOptions {
  std::string title;  // Of the point, for messages.
  int rounds = 7;
  // What one measurement should take. 0: every measurement has `iterations`.
  double seconds = 0.15;
  long iterations = 1;
  // No new round of a point is begun after this, so that the whole run is bounded.
  std::chrono::seconds pointLimit{60};
  // Whether the values that prepare() returned, in the contenders' order, fit together; may be
  // empty.
  std::function<Status(std::span<const double> values)> agree;
  // Called before each measurement; may be empty.
  std::function<void(const std::string& line)> progress;
};

// What came out for one contender.
struct Measurement {
  double value = 0;    // Of prepare().
  double seconds = 0;  // Of one iteration: the median over the rounds.
  int rounds = 0;
  long iterations = 0;  // In a row, timed together, in each round.
  CpuTimes cores;       // That each process kept busy, over all rounds.
};

// One outcome for each contender, in their order.
Result<std::vector<Measurement>> measure(std::span<const std::unique_ptr<Contender>> contenders,
                                         const RunnerOptions& options);

// How many iterations to measure next, when `iterations` took `elapsed` seconds and a measurement
// should take `target`: grows by at most 32 times, because first ones are slow.
long nextIterations(long iterations, double elapsed, double target);

// The time of an iteration of all ranks, from what each took for `iterations`. Ranks that work
// together are as fast as the slowest; the rates of independent ones add up.
double iterationSeconds(std::span<const double> ranks, long iterations, bool independent);

// The middle value, or the mean of the two in the middle. `values` must not be empty.
double median(std::vector<double> values);

}  // namespace colla::bench
