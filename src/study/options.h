// What a user wants a study to measure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "study/variant.h"

namespace colla::study {

// A figure that somebody published.
struct Published {
  std::string label;
  double value = 0;
  std::string unit;  // Empty: published without one.
};

struct Options {
  std::string study = "custom";  // Or the name of a published experiment: "deepfam".
  Program program;
  RunSettings settings;
  std::vector<std::string> strategies;  // As --strategies takes them; empty: all.
  std::vector<int> workers;
  int servers = 1;
  std::int64_t batch = 0;       // Per step over all workers; 0: the program's own.
  bool batchPerWorker = false;  // `batch` is each worker's: the step's grows with the workers.
  std::int64_t steps = 200;
  int repeat = 3;
  double budget = 60;          // Minutes.
  std::int64_t evalEvery = 0;  // 0: a tenth of the steps.
  std::int64_t saveEvery = 0;  // 0: at the end alone.
  std::int64_t warmUp = 0;     // 0: a tenth of the steps.
  std::vector<std::string> slowedStrategies =
      {};                               // Measured once more, with a worker slowed on purpose.
  std::vector<std::string> peers = {};  // Other systems that are measured in the same study.
  // What others published of this experiment, on machines of theirs.
  std::vector<Published> published = {};
  bool peersFromDisk = false;  // Also peers that read the data again in each pass.
  bool withoutPeers = false;   // Of a part of a suite, which they cannot train.
  bool alternatives = true;    // Also what one can do instead of distributing.
  int singleThreads = 0;  // Of these, where they are one worker; 0: as many as there are cores.
  bool together =
      false;  // Also one process that runs the slices of all workers, whose bits are theirs.
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Published, label, value, unit)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Options, study, program, settings, strategies, workers, servers,
                                   batch, batchPerWorker, steps, repeat, budget, evalEvery,
                                   saveEvery, warmUp, slowedStrategies, peers, peersFromDisk,
                                   published, alternatives, singleThreads, together)

}  // namespace colla::study
