// How a process finds its place in a job: from the variables that `colla run`, mpirun, srun or
// torchrun gave it.
//
// Writer and reader of `colla run`'s variables stand side by side here so that they cannot drift.
// Other launchers share no secret and serve no store, so their jobs follow these rules:
// - On one host the store is an abstract Unix socket named after the launcher's job id and the
//   user, served by rank 0; both ends check the other's user id.
// - Across hosts COLLA_SECRET_FILE must name a file with the job's secret, and the store is at
//   COLLA_STORE=HOST:PORT. Without that variable it is at MASTER_ADDR, port MASTER_PORT + 1 (- 1
//   for the last port) under torchrun, and on the step's first node, port
//   20000 + (job id * 16 + step id) % 12000 under srun. mpirun tells no address: set it there.
// - COLLA_JOB_ID, where set, stands for the launcher's own job id.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "colla/role.h"
#include "colla/status.h"

namespace colla::job {

struct Place {
  Role role = Role::kWorker;
  int rank = 0;     // Among the processes of its role.
  int size = 1;     // Workers in the job.
  int servers = 0;  // Parameter servers in the job.
  // Among the processes of its role on this host.
  int localRank = 0;
  int localSize = 1;

  std::string jobId;
  std::string host;               // This one, for messages.
  std::uint32_t epoch = 0;        // Of membership, at the start.
  std::string store;              // "unix:@name" or "host:port"; empty for a job of one process.
  bool servesStore = false;       // No launcher does, so this process has to.
  std::string secretHex;          // The job's secret; empty: none was given.
  std::string secretFile;         // Where it is instead, for launchers that share none.
  std::string launcher = "none";  // Or "colla", "mpirun", "srun", "torchrun".

  bool alone() const { return size == 1 && servers == 0; }
  bool oneHost() const { return localSize == size || store.starts_with("unix:"); }
};

using Environment = std::function<const char*(const char* name)>;

// The place that the variables describe; a job of one worker if there are none. Incomplete,
// contradictory and impossible ones are refused with the variable and its value: a process that
// is one of N never becomes a job of its own by mistake.
//
// `environment` is std::getenv outside of tests. Apart from it only the host's name and the user's
// id count.
Result<Place> readEnvironment(const Environment& environment);

// What `colla run` gives a process so that readEnvironment() finds `place` there.
std::vector<std::pair<std::string, std::string>> toVariables(const Place& place);

// Whether `name` is one of the variables that only `colla run` may set.
bool isPlaceVariable(std::string_view name);

// This host's name.
std::string hostName();

}  // namespace colla::job
