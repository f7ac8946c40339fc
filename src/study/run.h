// One run of a study: starts the training, watches it, and gathers what it has written.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "launch/blocked_signals.h"
#include "launch/spawn.h"
#include "study/counters.h"
#include "study/curve.h"
#include "study/sampler.h"
#include "study/variant.h"

namespace colla::study {

struct RunResult {
  std::string variant;  // Its id.
  int repeat = 0;
  std::uint64_t seed = 0;
  std::string status;  // "done" or "failed".
  std::string error;   // One line, if it failed.
  std::string command;
  double seconds = 0;         // From start to end of the processes.
  double trainingFrom = 0;    // When the training itself began; seconds since the start.
  std::vector<Curve> curves;  // One for each copy.
  std::vector<UseSample> uses;
  std::vector<HostSample> host;
  std::vector<Counters> counters;  // The last ones that were seen, at:
  double countedAt = 0;
  // Of a script, which writes no curve: samples and steps of all workers together by time, from its
  // counters.
  struct Count {
    double seconds = 0;
    double samples = 0;
    double steps = 0;
  };
  std::vector<Count> counts;
  bool batches =
      false;  // Of a program that counts no samples: every step of a worker is one batch.
  double samplerCost = 0;  // Seconds of a core that sampling took.

  bool done() const { return status == "done"; }
};

// Figures of a run that is done; pure. Zero where nothing is known.
double samplesPerSecond(const RunResult& run);
// Cores that all its processes kept busy while it trained.
double coresInUse(const RunResult& run);
// Cores that everything else on this machine kept busy meanwhile.
double otherCores(const RunResult& run);
// The most proportional memory of all processes with that role together; of all roles if empty.
double peakMemory(const RunResult& run, const std::string& role);

struct RunJob {
  CommandLine command;
  std::vector<std::string> environment;  // NAME=VALUE.
  std::string directory;                 // Empty before, and with all of the run's files after it.
  std::string rootRole = "worker";       // Of the process that is started.
  int copies = 1;
  bool script = false;
  bool inStep = true;
  std::int64_t warmUp = 0;  // 0: a tenth of the steps.
  int slowed = -1;          // This worker is stopped for half of the time.
  bool brief = false;       // Its end counts, and not what it has written.
  std::chrono::seconds limit{3600};
};

class Runner {
 public:
  Runner();

  // The run's result. kCancelled if a signal came: the run is ended, and signal() says which. What
  // goes wrong with the training itself is a result that failed. `tick` is called ten times a
  // second.
  Result<RunResult> run(const RunJob& job, const std::function<void()>& tick);
  int signal() const { return signal_; }
  // Whether a signal has come in between.
  bool interrupted();

 private:
  launch::Inherited inherited_;
  launch::BlockedSignals signals_;
  int signal_ = 0;
};

// The path of the `colla` that this process is.
std::string pathOfColla();

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunResult::Count, seconds, samples, steps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunResult, variant, repeat, seed, status, error, command,
                                   seconds, trainingFrom, curves, uses, host, counters, countedAt,
                                   counts, batches, samplerCost)

}  // namespace colla::study
