#include "launch/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "base/invalid.h"
#include "job/slurm.h"
#include "launch/ssh.h"

namespace colla::launch {
namespace {

std::string textOf(const job::Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<std::vector<AllocatedNode>> allocatedNodes(const job::Environment& environment) {
  std::vector<AllocatedNode> nodes;
  if (environment("SLURM_JOB_ID") == nullptr || environment("SLURM_JOB_NODELIST") == nullptr) {
    return nodes;
  }
  const auto place = job::readEnvironment(environment);
  if (!place.ok() || place->launcher != "none") return nodes;

  const std::string list = textOf(environment, "SLURM_JOB_NODELIST");
  const std::string tasksText = textOf(environment, "SLURM_TASKS_PER_NODE");
  const std::string cpusText = textOf(environment, "SLURM_JOB_CPUS_PER_NODE");
  const std::vector<std::string> names = job::slurm::nodeNames(list);
  const std::vector<int> cpus = job::slurm::tasksPerNode(cpusText);
  const std::vector<int> tasks = job::slurm::tasksPerNode(tasksText);
  const bool asked = environment("SLURM_NTASKS") != nullptr;
  if (names.empty() || cpus.size() != names.size() || (asked && tasks.size() != names.size())) {
    return invalid(
        "SLURM_JOB_NODELIST is \"{}\", SLURM_JOB_CPUS_PER_NODE \"{}\" and SLURM_TASKS_PER_NODE "
        "\"{}\", which do not fit together: name the hosts with -H",
        list, cpusText, tasksText);
  }
  int perTask = 1;
  const std::string perTaskText = textOf(environment, "SLURM_CPUS_PER_TASK");
  (void)std::from_chars(perTaskText.data(), perTaskText.data() + perTaskText.size(), perTask);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int slots = asked ? tasks[i] : std::max(1, cpus[i] / std::max(1, perTask));
    nodes.push_back({.name = names[i], .slots = slots, .cpus = cpus[i]});
  }
  return nodes;
}

// What stands here comes before the variables by which an allocation tells srun its own choices.
std::vector<std::string> srunCommand(const AllocatedNode& node,
                                     const std::vector<std::string>& command) {
  std::vector<std::string> words = {"srun",
                                    "--nodes=1",
                                    "--ntasks=1",
                                    "--ntasks-per-node=1",
                                    "--nodelist=" + node.name,
                                    fmt::format("--cpus-per-task={}", node.cpus),
                                    "--cpu-bind=none",
                                    "--mem=0",
                                    "--overlap",
                                    "--mpi=none",
                                    "--export=ALL",
                                    "--job-name=colla"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::string explainSrun(const std::string& node, int exitCode, const std::string& said) {
  const auto has = [&](std::string_view text) { return said.find(text) != std::string::npos; };
  if (exitCode == 127 || (has("colla") && has("not found"))) {
    return "there is no Colla: install it there as it is here, or put `colla` into PATH";
  }
  const std::string last = lastLine(said);
  return fmt::format("srun ended with exit code {}{}: try `srun --overlap -w {} hostname`",
                     exitCode, last.empty() ? "" : " (" + last + ")", node);
}

}  // namespace colla::launch
