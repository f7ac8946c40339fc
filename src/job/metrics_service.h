// Makes the metrics of this process readable, where the setting metrics_port asks for it.
//
// `colla run` serves the endpoint of a job that it started. In a job of several processes without
// it, worker 0 does, for the processes of its host; a process alone does for itself. The registry
// is the process's, and so is the service: several Jobs of one process share it, and it ends with
// the last.
#pragma once

#include <memory>

#include "base/config.h"
#include "colla/status.h"
#include "job/environment.h"
#include "rendezvous/membership.h"

namespace colla::job {

class MetricsService {
 public:
  // Hands this process's page to whoever serves the endpoint. Null where nobody asked for metrics.
  // Never fails: a process that can't be read trains all the same, after a warning.
  static std::shared_ptr<MetricsService> start(const Config& config, const Place& place);
  ~MetricsService();

  // Serves the endpoint, if that falls to this process, for itself and those of `members` that are
  // on its host. An error when the port can't be had.
  Status serveEndpoint(const Config& config, const rendezvous::Membership& members);

 private:
  explicit MetricsService(const Place& place);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace colla::job
