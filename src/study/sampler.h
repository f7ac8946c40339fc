// What the processes of a run take of the machine, from /proc, for each role and rank.
//
// sample() reads the processes that descend from one process, itself included, in the thread that
// calls it. Processes say their role and rank in their environment (COLLA_ROLE, COLLA_RANK); their
// children belong to them. Not thread safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace colla::study {

// The processes of one role and rank at one time. Counts are since their start.
struct UseSample {
  double seconds = 0;  // Since the run began.
  std::string role;    // "worker", "ps", or "launcher" for what starts and watches them.
  int rank = 0;
  double user = 0;          // Seconds of a core.
  double system = 0;        // The same, in the kernel.
  double resident = 0;      // Bytes.
  double proportional = 0;  // Bytes, with shared pages divided among those that share them.
  double switches = 0;      // Context switches.
  double faults = 0;        // Page faults.
};

// The whole host at one time.
struct HostSample {
  double seconds = 0;
  double busy = 0;      // Seconds of cores, since its start.
  double loopback = 0;  // Bytes through the loopback interface, since its start.
  double network = 0;   // Bytes in and out of all other interfaces.
};

class Sampler {
 public:
  // Looks after `root` and its descendants. `rootRole`: of processes that name none.
  Sampler(pid_t root, std::string rootRole);

  // Proportional memory and context switches cost more to read: they are read with `thorough`, and
  // stay as they were otherwise.
  void sample(double seconds, bool thorough);

  // A process with that role and rank; 0 if there is none.
  pid_t processOf(const std::string& role, int rank) const;

  const std::vector<UseSample>& uses() const { return uses_; }
  const std::vector<HostSample>& host() const { return host_; }
  // Of this process, for all samples so far.
  double ownCost() const { return cost_; }

 private:
  struct Known {
    std::string role;
    int rank = 0;
    unsigned long long startTime = 0;
    UseSample last;
  };
  using Place = std::pair<std::string, int>;

  void find();
  bool read(pid_t pid, Known& known, bool thorough) const;

  pid_t root_;
  std::string rootRole_;
  std::map<pid_t, Known> known_;
  std::map<Place, UseSample> ended_;  // Times and counts of processes that have ended.
  std::vector<UseSample> uses_;
  std::vector<HostSample> host_;
  double cost_ = 0;
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(UseSample, seconds, role, rank, user, system, resident,
                                   proportional, switches, faults)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostSample, seconds, busy, loopback, network)

}  // namespace colla::study
