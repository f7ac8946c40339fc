// The benchmark of parameter servers as a whole: trainings beside peers, and bytes through one
// server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::bench {

struct PsBenchOptions {
  bool train = true;
  bool push = true;

  std::vector<std::string> models = {"lr", "mlp"};
  std::vector<std::int64_t> batches;  // None: 100, and 500 for lr.
  // Systems to compare with. Those that are `required` are installed where they are missing; the
  // others are left out then, with a line on stderr.
  std::vector<std::string> peers = {"mxnet", "tf"};
  bool peersRequired = false;
  std::int64_t samples = 0;  // Of every data set; 0: each model's own number.

  std::vector<int> workers = {1, 2, 4, 8};  // That push.
  std::size_t bytes = std::size_t{32} << 20;

  int rounds = 7;
  double seconds = 0.3;
  std::string jsonFile;  // Empty: none.
  // What Colla's workers and servers run: src/bench_train, next to the command.
  std::string agentProgram;
};

// kInvalidArgument for a batch that does not cut the samples, or its halves, evenly.
Status check(const PsBenchOptions& options);

// As benchTrain().
int benchPs(const PsBenchOptions& options);

}  // namespace colla::bench
