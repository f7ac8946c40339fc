// One rank of one system: a process that sleeps until the coordinator tells it what to measure.
//
// The agent connects to the coordinator's socket and says `hello SYSTEM RANK`. Then it answers
// each of these lines, which all ranks of a system get together, with one of its own:
//   prepare WHAT   makes everything ready; each benchmark says what WHAT is  ok
//   verify N       does N iterations from the beginning and checks them:
//                  the loss of a training, otherwise 0                       ok LOSS
//   measure N      does N iterations in a row, after a barrier               ok SECONDS
//   messages       (Colla's alone) what it has sent over networks so far     ok MESSAGES
// or "error TEXT". It ends when the connection does. The peers' agents (peers/) speak the same.
#pragma once

#include <string>

#include "colla/status.h"

namespace colla::bench {

// A system, seen from one of its ranks. Errors may also be thrown, as any std::exception.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual Status prepare(const std::string& what) = 0;
  // A loss, or 0 where the result is checked in place.
  virtual Result<double> verify(long iterations) = 0;
  // Returns once all ranks have called it.
  virtual Status barrier() = 0;
  virtual Status run(long iterations) = 0;
};

struct AgentPlace {
  std::string socket;  // Where the coordinator listens.
  std::string system;
  int rank = 0;
  int np = 1;
};

// Says hello and answers the lines above until the coordinator hangs up. An error goes to the
// coordinator and ends this agent.
Status serveAgent(const AgentPlace& place, Workload& workload);

}  // namespace colla::bench
