// TensorFlow's flags for a job whose processes are started one by one:
//
//   ./train --ps_hosts a:2222 --worker_hosts a:2223,b:2222 --job_name worker --task_index 1
//
// What they say enters the environment of this process, where startWorkers() and Job::init() find
// it as if a launcher had put it there.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/config.h"
#include "colla/status.h"
#include "job/cluster.h"

namespace colla::launch {

class ClusterFlags {
 public:
  // `app` must outlive it, and this must stay where it is: the flags point here.
  explicit ClusterFlags(CLI::App& app);
  ClusterFlags(const ClusterFlags&) = delete;
  ClusterFlags& operator=(const ClusterFlags&) = delete;

  // After parse(). Whether this process was started so, by flags or by variables.
  bool given() const;
  // Whether there are parameter servers in the lists.
  bool servers() const { return !words().servers.empty(); }
  // --sync_replicas: servers wait for the gradients of all workers.
  bool syncReplicas() const { return syncReplicas_; }

  // Enters the environment, with the file of the job's secret if `config` names one. To be called
  // before startWorkers(), while the process has one thread. kInvalidArgument for words that make
  // no sense.
  Status enter(const Config& config) const;

 private:
  job::ClusterWords words() const;

  std::vector<std::string> servers_;
  std::vector<std::string> workers_;
  std::string jobName_;
  std::string taskIndex_;
  bool syncReplicas_ = false;
};

}  // namespace colla::launch
