// A process's place in the job, as Python holds it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "colla/job.h"

namespace colla::python {

using Settings = std::map<std::string, std::string>;

class PythonJob {
 public:
  explicit PythonJob(const Settings& settings);
  ~PythonJob();

  Job& job() { return *job_; }
  // A server's place: it serves, and computes nothing.
  bool isServer() const { return job_->role() == Role::kServer; }
  // Among the ranks with the same localRank() on other hosts.
  int crossRank() const { return crossRank_; }
  int crossSize() const { return crossSize_; }
  // Every host has as many ranks.
  bool isHomogeneous() const { return isHomogeneous_; }

 private:
  Status open(const Settings& settings);

  std::unique_ptr<Job> job_;
  int crossRank_ = 0;
  int crossSize_ = 0;
  bool isHomogeneous_ = true;
};

}  // namespace colla::python
