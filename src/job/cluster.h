// A job whose processes were started one by one, each with the lists of all: TensorFlow's way,
// with ps_hosts, worker_hosts, job_name and task_index.
//
// On one host the addresses only name the job: it meets at a Unix socket and shares memory.
// Between hosts each task needs the one port that it was given, and no other:
// - the last task (workers count first, then servers) serves the store there;
// - at every other one the tasks after it connect.
// Nobody comes after the last task: that is why its port is free for the store.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "colla/role.h"
#include "colla/status.h"
#include "job/environment.h"
#include "job/this_host.h"

namespace colla::job {

// Place::launcher of such jobs.
inline constexpr char kLists[] = "lists";

// As the user wrote them; what is empty was not given.
struct ClusterWords {
  std::string servers;  // "a:2222,b:2222", with commas or spaces between.
  std::string workers;
  std::string jobName;
  std::string taskIndex;

  bool given() const {
    return !(servers.empty() && workers.empty() && jobName.empty() && taskIndex.empty());
  }
};

// In the variables of a process, and back.
ClusterWords readWords(const Environment& environment);
std::vector<std::pair<std::string, std::string>> toVariables(const ClusterWords& words);

struct Task {
  std::string host;  // In small letters, without the brackets of IPv6.
  int port = 0;

  std::string text() const;
  friend bool operator==(const Task&, const Task&) = default;
};

struct Cluster {
  std::vector<Task> workers;
  std::vector<Task> servers;
  Role role = Role::kWorker;  // This process's, and its number.
  int index = 0;

  const std::vector<Task>& tasks(Role which) const {
    return which == Role::kWorker ? workers : servers;
  }
  const Task& self() const { return tasks(role)[static_cast<std::size_t>(index)]; }
  // The one that serves the store.
  const Task& last() const { return servers.empty() ? workers.back() : servers.back(); }
  bool selfIsLast() const;
};

// kInvalidArgument for what can't be, with the culprit.
Result<Cluster> parseCluster(const ClusterWords& words);

// This process's place. `place` has the name of its host, and the job's id if the user gave one.
// kInvalidArgument if this is not the task's host, or if the job spans hosts and there is no file
// with its secret.
Result<Place> placeIn(const Cluster& cluster, const ThisHost& here, Place place,
                      const std::string& secretFile);

// Why a process of such a job can't listen at its address: most likely it is the second one.
Status addressTaken(const Place& place, const Status& listening);

}  // namespace colla::job
