// One rank of one system: a process that sleeps until the coordinator tells it what to measure.
//
// The agent connects to the coordinator's socket and says `hello SYSTEM RANK`. Then it answers
// each of these lines, which all ranks of a system get together, with one of its own:
//   prepare OP ELEMENTS   makes the buffers                                 ok | error TEXT
//   verify                does the operation once and checks the result     ok | error TEXT
//   measure N             does it N times in a row, on buffers of zeros,
//                         after a barrier                                   ok SECONDS | error TEXT
// and ends when the connection does. The peers' agents (peers/) speak the same.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "bench/operation.h"
#include "colla/status.h"

namespace colla::bench {

// A system, seen from one of its ranks.
class Workload {
 public:
  virtual ~Workload() = default;

  // Makes input() and output() for `point`, the same memory where the point is in place.
  virtual Status prepare(const Point& point) = 0;
  virtual std::span<float> input() = 0;
  virtual std::span<float> output() = 0;

  // Returns once all ranks have called it.
  virtual Status barrier() = 0;
  // Does the operation of the last prepare() so many times.
  virtual Status run(long iterations) = 0;
};

struct AgentPlace {
  std::string socket;  // Where the coordinator listens.
  std::string system;
  int rank = 0;
  int np = 1;
};

// What an agent of any kind does: says hello, and answers each of the coordinator's lines with what
// `obey` makes of it, until the coordinator hangs up. An error goes to the coordinator and ends
// this agent.
using Obey = std::function<Result<std::string>(const std::string& line)>;
Status serveLines(const AgentPlace& place, const Obey& obey);

// The same for the lines above.
Status serveAgent(const AgentPlace& place, Workload& workload);

}  // namespace colla::bench
