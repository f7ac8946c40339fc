// `colla run`, on this host or on several: starts a job's processes, passes on what they say and
// how they end, and leaves nothing behind.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "launch/allocation.h"
#include "launch/host_slots.h"
#include "launch/ssh.h"

namespace colla::launch {

struct RunOptions {
  int workers = 1;
  int servers = 0;
  std::vector<std::string> command;  // The program and its arguments.
  std::string program;               // Its path, if it is not the first word of `command`.
  // For every process, stronger than what is inherited or computed.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string outputDir;                             // Empty: no files.
  std::optional<std::chrono::milliseconds> timeout;  // For the whole job.
  // What processes get to end by themselves once they were asked to.
  std::chrono::milliseconds grace{5000};
  bool prefix = true;  // Say before each line whose it is.
  // Except worker 0's standard output: it is passed on as it is and at once and, where ours is a
  // terminal, it is one too.
  bool verbatim = false;
  // After a first Ctrl-C the processes get as long as they need, to save their work; a second one
  // ends them. If all of them then leave by themselves, the exit code is worker 0's.
  bool patient = false;
  // So many workers other than worker 0 may fail, and the job goes on: for programs that can do so.
  int spareWorkers = 0;
  std::vector<HostSlots> hosts;           // That workers fill one by one; empty: this one.
  std::vector<HostSlots> serverHosts;     // Of servers; empty: the workers' in turn.
  std::vector<AllocatedNode> allocation;  // Hosts that srun reaches.
  SshOptions ssh;
  std::string interfaces;  // Names between commas, of which each host takes the first that it has.
  bool ownTorch = false;   // The program has the libtorch of Colla's own commands.
  bool copy = false;       // Bring Colla and the program to hosts that lack them.
  bool prefixTimestamps = false;   // Say before each line when it came.
  std::string name = "colla run";  // How our own messages begin.
  Config config;
};

constexpr int kMaxProcesses = 4096;

// Exit codes that do not come from the program.
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitTimeout = 124;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

// In an allocation of Slurm: its nodes become the hosts if there are no others and not all are this
// one.
Status useAllocation(RunOptions& options);

// Runs the job and returns the exit code to end with: 0, the code of the first process that failed
// (128 + n for signal n) and could not be spared, or one of the above, after a line on standard
// error.
//
// To be called from a process with one thread. Changes the signal mask and makes this process the
// reaper of its orphaned descendants, for good: the process should end soon after.
int run(const RunOptions& options);

}  // namespace colla::launch
