// A process's place in the job, as Python holds it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "colla/job.h"
#include "job/invitation.h"

namespace colla::python {

using Settings = std::map<std::string, std::string>;

// How a process that somebody else started meets its peers: job/invitation.h.
class PythonMeeting {
 public:
  // `secret` may be empty.
  PythonMeeting(int rank, int size, const std::string& secret, Settings settings);

  // For rank 0: the text for every rank.
  std::string invite(const std::vector<std::string>& introductions);
  // The text of rank 0.
  void accept(const std::string& invitation);
  // Once, after accept().
  job::Meeting take();

 private:
  job::Guest guest_;
  Settings settings_;
  job::Invitation invitation_;
  std::unique_ptr<job::Meeting> meeting_;
};

class PythonJob {
 public:
  // Without a meeting the environment says where the peers are. `torchVersion` may be empty.
  PythonJob(const Settings& settings, const std::string& torchVersion, PythonMeeting* meeting);
  ~PythonJob();

  // Raises after close().
  const std::shared_ptr<Job>& job() const;
  // Leaves: the connections end with the last of those that use them.
  void close();

  // A server's place: it serves, and computes nothing.
  bool isServer() const { return job()->role() == Role::kServer; }
  // Among the ranks with the same localRank() on other hosts.
  int crossRank() const { return crossRank_; }
  int crossSize() const { return crossSize_; }
  // Every host has as many ranks.
  bool isHomogeneous() const { return isHomogeneous_; }

 private:
  Status open(const JobOptions& options, std::unique_ptr<job::Meeting> meeting);

  std::shared_ptr<Job> job_;
  int crossRank_ = 0;
  int crossSize_ = 0;
  bool isHomogeneous_ = true;
};

}  // namespace colla::python
