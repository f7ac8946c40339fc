// How to start each system that is compared.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/agent.h"
#include "bench/coordinator.h"
#include "bench/network.h"
#include "colla/status.h"

namespace colla::bench {

// What all systems of a run have in common.
struct Stage {
  Coordinator& coordinator;
  int np = 2;
  Net net = Net::kShm;
  const Hosts* hosts = nullptr;  // Where net is kVeth: ranks fill one after the other.
  int servers = 0;               // Parameter servers of a job of Colla's, on this host.
  int hostCount = 2;             // Of `hosts`.

  int hostOf(int rank) const { return hosts == nullptr ? 0 : rank * hostCount / np; }
  // The place of a rank, for its process.
  int networkNamespace(int rank) const {
    return hosts == nullptr ? -1 : hosts->networkNamespace(hostOf(rank));
  }
  std::string interface() const { return hosts == nullptr ? "lo" : std::string(Hosts::kInterface); }
};

// A system whose ranks are forks of this process that run `agent`.
SystemSpec forkedSystem(const Stage& stage, const std::string& name,
                        const std::function<Status(const AgentPlace& place)>& agent);

// The processes of a job of Colla's with stage.np ranks, with the variables that `colla run` gives
// them: the store, the ranks, then the servers as np and following. `work` says what a rank's
// process does.
SystemSpec collaJob(const Stage& stage, const std::string& name, const std::string& transport,
                    const std::function<void(int rank, ProcessSpec& process)>& work);

// A peer that is a script of peers/, one process for each rank, with one thread. Its arguments are
// SOCKET SYSTEM RANK NP STORE, as those of Gloo's agent.
Result<SystemSpec> scriptSystem(const Stage& stage, const std::string& name,
                                const std::string& python, const std::string& script);

// Two workers of MXNet or TensorFlow ("mxnet", "tf") and their parameter server.
Result<SystemSpec> peerServerSystem(const Stage& stage, const std::string& name,
                                    const std::string& python);

// The Python of a peer's environment by its name (peers/environments.py): "torch", "mxnet", "tf".
// If an environment that can be made is not there, this makes it if `make`, which takes minutes and
// which `tell` announces; otherwise kNotFound, with what to do.
Result<std::string> peerPython(Coordinator& coordinator, const std::string& environment, bool make,
                               const std::function<void(const std::string& line)>& tell);

// The path of a file of peers/, which the program carries as text; all of them lie in one folder.
Result<std::string> peerFile(Coordinator& coordinator, const std::string& name);

}  // namespace colla::bench
