// What a job on this host consists of: which processes, each with its whole environment.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "colla/role.h"
#include "colla/status.h"
#include "launch/layout.h"
#include "launch/run.h"

namespace colla::launch {

struct Process {
  Role role = Role::kWorker;
  int rank = 0;
  std::string host;
  std::vector<std::string> environment;  // "NAME=value", sorted.

  std::string name() const;      // "worker 0"
  std::string fileName() const;  // "worker-0"
};

struct Plan {
  std::string jobId;
  std::string secretHex;
  std::string store;                   // Where it is served.
  std::string host;                    // This one.
  bool remote = false;                 // Agents start the processes, here or on other hosts.
  std::string program;                 // A path.
  std::vector<std::string> arguments;  // The first one as the user wrote it.
  std::vector<Process> processes;      // Workers by rank, then servers by rank.
};

// One of a job's several hosts.
struct PlannedHost {
  HostLayout layout;
  int cores = 1;
  std::string store;      // The job's store, as it is reached from there.
  std::string interface;  // To listen on; empty: the one that leads to the store.
};

// What a plan takes from the machine; tests pass their own.
struct Surroundings {
  std::vector<std::string> environment;  // "NAME=value"
  int cores = 1;
  std::string host;
  std::string jobId;               // Fresh and random, as is
  std::string secretHex;           // this.
  int secretFd = -1;               // The descriptor through which processes get it.
  std::vector<PlannedHost> hosts;  // Empty: this one alone.
  // For the program's own use: worker 0's host as others reach it, and a free port of TCP there.
  std::string address = "127.0.0.1";
  int freePort = 0;

  static Result<Surroundings> here();
};

// A TCP port that is free now and unlikely to be taken soon, because the kernel chooses among
// thousands; torch's usual one where there is no TCP.
int findFreePort();

// The settings that do not have their defaults, as variables.
std::vector<std::pair<std::string, std::string>> settingVariables(const Config& config);

// kInvalidArgument for options that make no sense on any machine.
Status checkRunOptions(const RunOptions& options);

// kInvalidArgument for options that make no sense; kNotFound or kRefused if the program cannot be
// run. Threads per worker depend on the workers alone, so that a job has the same bits with and
// without servers.
Result<Plan> makePlan(const RunOptions& options, const Surroundings& surroundings);

}  // namespace colla::launch
