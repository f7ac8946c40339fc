// What a job on this host consists of: which processes, each with its whole environment.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "colla/role.h"
#include "colla/status.h"
#include "launch/run.h"

namespace colla::launch {

struct Process {
  Role role = Role::kWorker;
  int rank = 0;
  std::vector<std::string> environment;  // "NAME=value", sorted.

  std::string name() const;      // "worker 0"
  std::string fileName() const;  // "worker-0"
};

struct Plan {
  std::string jobId;
  std::string secretHex;
  std::string store;
  std::string host;
  std::string program;                 // A path.
  std::vector<std::string> arguments;  // The first one as the user wrote it.
  std::vector<Process> processes;      // Workers by rank, then servers by rank.
};

// What a plan takes from the machine; tests pass their own.
struct Surroundings {
  std::vector<std::string> environment;  // "NAME=value"
  int cores = 1;
  std::string host;
  std::string jobId;      // Fresh and random, as is
  std::string secretHex;  // this.
  int freePort = 0;       // Of TCP: for the program's own use.

  static Result<Surroundings> here();
};

// The settings that do not have their defaults, as variables.
std::vector<std::pair<std::string, std::string>> settingVariables(const Config& config);

// kInvalidArgument for options that make no sense; kNotFound or kRefused if the program cannot be
// run. Threads per worker depend on the workers alone, so that a job has the same bits with and
// without servers.
Result<Plan> makePlan(const RunOptions& options, const Surroundings& surroundings);

}  // namespace colla::launch
