// One worker of one system of `colla bench train`: as in agent.h, but it trains. All workers of a
// system get each of these lines together, and answer with one of their own:
//   prepare MODEL SAMPLES BATCH SHARE RATE PATH
//                    maps the files PATH.x, .y and .w (train_model.h)        ok | error TEXT
//   verify N         trains N steps of BATCH samples from the first weights, alone or together: the
//                    loss of the last one. Then goes back to the first weights
//                                                                           ok LOSS | error TEXT
//   measure N        trains N more steps with SHARE samples for every worker, after a barrier if
//                    there is one                                           ok SECONDS | error TEXT
// The samples come in their natural order, over and over; of two workers the first has the first
// half of every batch. Both sizes divide SAMPLES; they say the same but for workers that know
// nothing of each other, each of which has a whole batch to verify. A LOSS is the mean over what
// the worker saw or over the global batch: the mean over the workers is the same.
#pragma once

#include <cstdint>
#include <string>

#include "bench/agent.h"
#include "colla/status.h"

namespace colla::bench {

// What prepare says.
struct TrainPoint {
  std::string model;
  std::int64_t samples = 0;
  std::int64_t batch = 0;
  std::int64_t share = 0;
  double rate = 0;
  std::string path;
};
std::string toLine(const TrainPoint& point);

// A worker that trains. Errors may also be thrown, as any std::exception.
class Trainee {
 public:
  virtual ~Trainee() = default;
  virtual Status prepare(const TrainPoint& point) = 0;
  virtual Result<double> verify(long steps) = 0;
  virtual Result<double> measure(long steps) = 0;
};

// Serves the coordinator until it hangs up.
Status serveTrainAgent(const AgentPlace& place, Trainee& trainee);

}  // namespace colla::bench
