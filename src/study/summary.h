// The figures of a study: what several runs of a variant give together. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "study/run.h"
#include "study/variant.h"

namespace colla::study {

// The middle of several runs, and how far they lie apart.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
  int runs = 0;

  bool known() const { return runs > 0; }
};
// Of no values: unknown.
Spread spreadOf(std::vector<double> values);

struct Summary {
  Variant variant;
  int done = 0;
  std::vector<std::string> failures;  // One line each.
  Spread samplesPerSecond;
  Spread secondsPerStep;  // The medians of the runs' steps.
  Spread finalLoss;
  Spread finalAccuracy;
  // Training time until the loss was that of the study's target; unknown where a run did not get
  // there, or no loss was written down.
  Spread secondsToLoss;
  Spread cores;  // Kept busy while it trained.
  Spread coreSecondsToLoss;
  Spread workerMemory;  // Bytes, of all workers together, at most.
  Spread serverMemory;
  // Against one worker; 0 where that is unknown.
  double speedup = 0;     // Of the throughput.
  double efficiency = 0;  // The speed-up per core, if more workers can have more cores.
  bool oversubscribed = false;
  bool missedLoss = false;  // A run did not come down to the target.
};

struct Figures {
  // By repeat: of the lowest losses that the exact strategies reached, the highest. Empty where
  // there is no loss.
  std::vector<double> targets;
  bool testLoss = false;  // Losses are of the test set, else of the training.
  std::vector<Summary> summaries;

  double otherCores = 0;  // That other programs kept busy meanwhile.

  // One worker, with as many threads as are fastest.
  const Summary* baseline() const;
  const Summary* find(const std::string& id) const;
};

Figures figuresOf(const std::vector<Variant>& variants, const std::vector<RunResult>& runs,
                  int cores);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Spread, median, low, high, runs)

}  // namespace colla::study
