// This process's place in a training job: the first thing a program makes, and the owner of
// everything else.
//
//   auto job = colla::Job::init();
//   if (!job.ok()) return job.status();
//   colla::Group& world = (*job)->world();
//
// Under `colla run` the environment tells rank, size and peers. Under mpirun, srun or torchrun, and
// where COLLA_WORKER_HOSTS and the like name all processes, the process joins its peers, or init()
// says why not. Started by itself it is a job of one worker.
//
// A process may be in several jobs, one after the other or at the same time: its n-th init() meets
// the n-th of the other processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colla/bucket.h"
#include "colla/collectives.h"
#include "colla/epoch.h"
#include "colla/group.h"
#include "colla/role.h"
#include "colla/status.h"

namespace colla {

namespace transport {
class Transport;
}
namespace job {
struct Meeting;
}

struct JobOptions {
  // The version of libtorch that the program runs on; empty for one without. Every process of a
  // job must have the same.
  std::string torchVersion = {};
  // Settings that the program chose, by name: stronger than the environment and the TOML file, as
  // flags are.
  std::map<std::string, std::string> settings = {};
  // The program knows what to do as a parameter server. One that does not is refused that role.
  bool serves = false;
};

class Job {
 public:
  // Reads the environment, meets the other processes and connects to them.
  static Result<std::unique_ptr<Job>> init(const JobOptions& options = {});
  // The same where somebody else has found out which process this is and where the others meet
  // (job/open_store.h): the environment then tells settings alone.
  static Result<std::unique_ptr<Job>> init(const JobOptions& options, job::Meeting meeting);
  // A job whose workers are threads of this process: one Job for each of them. Refused where the
  // environment says that this process is one of several.
  static Result<std::vector<std::unique_ptr<Job>>> inThreads(int workers,
                                                             const JobOptions& options = {});
  // Leaves the job. Peers that still wait for this process see it as lost. Groups and buckets of
  // the job must be gone before.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Role role() const;
  // This process's number among those of its role, and how many there are.
  int rank() const;
  int size() const;
  // The same among those on this host.
  int localRank() const;
  int localSize() const;
  // How many parameter servers the job has.
  int servers() const;
  const std::string& host() const;
  // The number of slices of a global batch.
  int slices() const;
  // Threads that this worker should compute with.
  int threads() const;

  // The workers of the job as they stand now: all of them, until somebody replaces the epoch.
  Epoch epoch() const;
  // Replaces the epoch by one with the workers of `plan`, in its order. Workers that are not in it
  // stay connected and idle until a later epoch takes them. Nobody connects anew.
  //
  // Every process of the job calls it between two steps, and idle workers and servers do, too. At
  // least one of them has a plan, and all who have one have the same; the others learn it. A call
  // returns once all processes have the new epoch, so an idle worker waits in it for the others:
  // `timeout` (the setting collective_timeout if 0) has to last for that.
  //
  // After kInvalidArgument and kMismatch, which all processes get alike, the present epoch goes on.
  // After any other error this job has no further epochs.
  Status replaceEpoch(const std::optional<EpochPlan>& plan, std::chrono::milliseconds timeout = {});
  // kInvalidArgument for a plan that replaceEpoch() would refuse, whatever the others have.
  Status checkEpoch(const EpochPlan& plan) const;
  // epoch().world(): all workers of the epoch. Only for those.
  Group& world();

  // For those who talk to servers: how this process reaches the others (null for a job of one
  // process), by numbers that workers have first, then servers; what they are called; and how long
  // to wait for them.
  transport::Transport* transport();
  std::vector<std::string> names() const;
  std::chrono::milliseconds timeout() const;

  // Memory for gradients: see Bucket. kNoMemory when this host has not enough.
  Result<Bucket> allocate(std::size_t bytes);
  // One bucket that the epoch's workers of this host have in common: what one of them writes, the
  // others see. Each of them calls it, with the same `bytes`. kUnsupported where they share no
  // memory: see Topology::sharesMemory().
  Result<Bucket> allocateCommon(std::size_t bytes);

 private:
  struct State;
  explicit Job(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace colla
