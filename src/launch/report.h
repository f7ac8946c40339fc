// What `colla run` says and returns at a job's end.
#pragma once

#include <map>
#include <string>

#include "launch/output.h"
#include "launch/plan.h"
#include "launch/run.h"
#include "launch/supervisor.h"

namespace colla::launch {

struct Report {
  std::string text;  // Empty: all went well, or nobody is there to read it.
  int exitCode = 0;
};

// Hosts that are lost, by their names, with the reasons.
using LostHosts = std::map<std::string, std::string>;

Report makeReport(const Supervisor& supervisor, const Plan& plan, const RunOptions& options,
                  const Output& output, const LostHosts& lostHosts = {});

// What is said when the job goes on without a worker, one of supervisor.lost().
std::string lossNotice(int worker, const Supervisor& supervisor, const Plan& plan,
                       const RunOptions& options, const Output& output,
                       const LostHosts& lostHosts = {});

// "SIGKILL"
std::string signalName(int signal);

}  // namespace colla::launch
