// The allocation of Slurm that this process is in: its nodes are hosts of a job, and srun reaches
// them where other jobs have ssh.
#pragma once

#include <string>
#include <vector>

#include "colla/status.h"
#include "job/environment.h"

namespace colla::launch {

struct AllocatedNode {
  std::string name;
  int slots = 1;  // Tasks that were asked for there, or as many as it has room for.
  int cpus = 1;   // Of the allocation.
};

// In the order of Slurm's lists. Empty outside of an allocation, and for a task of a step, which
// has its place in a job already. kInvalidArgument for variables that contradict each other.
Result<std::vector<AllocatedNode>> allocatedNodes(const job::Environment& environment);

// The words of an srun that runs `command` on `node`. It may use all of the node's share, beside
// other steps.
std::vector<std::string> srunCommand(const AllocatedNode& node,
                                     const std::vector<std::string>& command);

// Why an srun ended with `exitCode` before the agent spoke, from what it said on its outputs.
std::string explainSrun(const std::string& node, int exitCode, const std::string& said);

}  // namespace colla::launch
