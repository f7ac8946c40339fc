// How a process finds its place in a job: from the variables that `colla run`, mpirun, srun or
// torchrun gave it, or from lists of all processes (job/cluster.h).
//
// Writer and reader of `colla run`'s variables stand side by side here so that they cannot drift.
// Other launchers share no secret and serve no store, so their jobs follow these rules:
// - On one host the store is an abstract Unix socket named after the launcher's job id and the
//   user, served by rank 0; both ends check the other's user id.
// - Across hosts rank 0 serves the store at COLLA_STORE=HOST:PORT. Without that variable it is at
//   MASTER_ADDR, port MASTER_PORT + 1 (- 1 for the last port) under torchrun, and on the step's
//   first node, port 20000 + (job id * 16 + step id) % 12000 under srun. mpirun tells no address.
// - Across hosts the secret is in the file that COLLA_SECRET_FILE names. Without that variable rank
//   0 makes one and hands it out (job/handout.h): in a Slurm allocation by MUNGE, under mpirun by
//   its process manager, which then tells where the store is as well.
// - Whether a job is on one host is what the launcher's counts say. Under torchrun, and with its
//   variables set by hand, they may count less than a host: where neither a store nor a secret is
//   named, a process on MASTER_ADDR's host takes the job to be on that one, and waits there for the
//   others. One on a different host says that it needs a secret.
// - COLLA_JOB_ID, where set, stands for the launcher's own job id.
// Lists of all processes, in COLLA_PS_HOSTS, COLLA_WORKER_HOSTS, COLLA_JOB_NAME and
// COLLA_TASK_INDEX, count before the variables of mpirun, srun and torchrun, and never
// together with those of `colla run`.
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

// How processes on several hosts get a secret that is in no file.
enum class Handout { kNone, kMunge, kPmi, kPmix };

struct Place {
  Role role = Role::kWorker;
  int rank = 0;     // Among the processes of its role.
  int size = 1;     // Workers in the job.
  int servers = 0;  // Parameter servers in the job.
  // Among the processes of its role on this host.
  int localRank = 0;
  int localSize = 1;
  int ownCpus = 0;  // That the launcher counts for each process; 0: it has not said.

  std::string jobId;
  std::string host;          // This one, for messages.
  std::uint32_t epoch = 0;   // Of membership, at the start.
  std::string store;         // "unix:@name" or "host:port"; empty for a job of one process.
  bool servesStore = false;  // No launcher does, so this process has to.
  std::string secretHex;     // The job's secret; empty: none was given.
  int secretFd = -1;         // The descriptor that has it, for toVariables(); -1: secretHex does.
  std::string secretFile;    // Where it is instead, for launchers that share none.
  // What a process that shares no file with the others does first (job/handout.h): until then the
  // secret is empty, and under mpirun the job's id and the store may be.
  Handout handout = Handout::kNone;
  std::string launcher = "none";  // Or "colla", "mpirun", "srun", "torchrun", "lists".
  // Where to listen, in a job by lists that spans hosts: "10.0.0.1:2222"; empty: at any port.
  std::string address;
  // In a job by lists: "10.0.0.1:2222" of every process, workers by rank first.
  std::vector<std::string> tasks;

  // This process's number in the job: workers come first, then servers.
  int index() const { return role == Role::kWorker ? rank : size + rank; }
  bool alone() const { return size == 1 && servers == 0; }
  bool oneHost() const { return (servers == 0 && localSize == size) || store.starts_with("unix:"); }
};

using Environment = std::function<const char*(const char* name)>;

// The place that the variables describe; a job of one worker if there are none. Incomplete,
// contradictory and impossible ones are refused with the variable and its value: a process that
// is one of N never becomes a job of its own by mistake.
//
// `environment` is std::getenv outside of tests. Apart from it only the host's name, the user's id
// and, for lists and torchrun, the addresses of the hosts that are named count.
Result<Place> readEnvironment(const Environment& environment);

// What `colla run` gives a process so that readEnvironment() finds `place` there.
std::vector<std::pair<std::string, std::string>> toVariables(const Place& place);

// What PyTorch's env:// expects beside them in a worker of `colla run`: its place under torchrun's
// names, and where worker 0 may serve a store: at `port` of `address`. For the program alone:
// readEnvironment() finds the variables above first.
std::vector<std::pair<std::string, std::string>> toTorchVariables(const Place& place,
                                                                  const std::string& address,
                                                                  int port);

// Whether `name` is one of the variables that only `colla run` may set.
bool isPlaceVariable(std::string_view name);

// The secret that this process has from `colla run` or from COLLA_SECRET, in hexadecimal digits;
// empty if it has none.
std::string givenSecret(const Environment& environment);

// Where a job on one host meets, if no launcher serves its store.
std::string localStore(std::string_view jobId);

// What to do about a missing secret.
inline constexpr std::string_view kSecretHint =
    "make a file that every host can read and only you (umask 077; head -c 32 /dev/urandom | "
    "base64 "
    "> FILE) and set COLLA_SECRET_FILE=FILE";

// This host's name.
std::string hostName();

}  // namespace colla::job
