// How to start each system that is compared. Colla's is in a file of its own, colla_system.cc.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/bare.h"
#include "bench/coordinator.h"
#include "bench/network.h"
#include "bench/operation.h"
#include "colla/status.h"

namespace colla::bench {

// A system as the report names it. `name` alone tells all systems of a run apart.
struct SystemInfo {
  std::string name;
  std::string buffers;    // "shared" or "private".
  std::string transport;  // "shm", "tcp", "tcp-plain"; "memory" where no library is.
  bool allreduceOnly = false;

  bool can(Operation operation) const {
    return !allreduceOnly || operation == Operation::kAllreduce;
  }
};

// What all systems of a run have in common.
struct Stage {
  Coordinator& coordinator;
  int np = 2;
  Net net = Net::kShm;
  const VethPair* veth = nullptr;  // Where net is kVeth.
  int servers = 0;                 // Parameter servers of a job of Colla's, on this host.

  // The place of a rank, for its process.
  int networkNamespace(int rank) const {
    return veth == nullptr ? -1 : veth->side(sideOf(rank, np));
  }
};

// The limit. `memory` must live until its agents have been started.
SystemSpec bareSystem(const Stage& stage, const BareMemory& memory);

// Colla, with the buffers and the transport that `info` names.
SystemSpec collaSystem(const Stage& stage, const SystemInfo& info);

// The processes of a job of Colla's with stage.np ranks: the store and the ranks with their
// variables. `work` says what a rank's process does; servers come behind the ranks, as np and
// following.
SystemSpec collaJob(const Stage& stage, const std::string& name, const std::string& transport,
                    const std::function<void(int rank, ProcessSpec& process)>& work);

// The Python to run peers with. kNotFound, with what to install, where none has torch.
Result<std::string> findPythonWithTorch(Coordinator& coordinator);

// Gloo through torch.distributed. kNotFound, with what to install, where there is no Python that
// has torch.
Result<SystemSpec> glooSystem(const Stage& stage);

// Open MPI through a small program, which this compiles. kNotFound, with what to install, where
// there is no compiler for it.
Result<SystemSpec> openMpiSystem(const Stage& stage);

}  // namespace colla::bench
