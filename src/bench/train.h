// The benchmark of training as a whole: starts the systems, measures, reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/train_model.h"
#include "colla/status.h"

namespace colla::bench {

struct TrainBenchOptions {
  std::vector<std::string> models = {"lr", "softmax", "snn", "mlp"};
  std::vector<BatchSize> batches;  // None: each model's own.
  // Systems to compare with. Those that are not `required` are left out, with a line on stderr,
  // where they are not installed.
  std::vector<std::string> peers = {"torch", "ddp"};
  bool peersRequired = false;
  std::int64_t samples = 0;  // Of every data set; 0: each model's own number.
  int rounds = 7;
  double seconds = 0.3;
  std::string jsonFile;  // Empty: none.
  // What Colla's workers run: src/bench_train, next to the command.
  std::string agentProgram;
};

// kInvalidArgument for a batch that does not cut the samples, or its halves, evenly.
Status check(const TrainBenchOptions& options);

// Prints the table on stdout, and on failure one line on stderr. Returns the exit code: 0, 1 on
// failure, 128 + n when signal n ended it.
int benchTrain(const TrainBenchOptions& options);

}  // namespace colla::bench
