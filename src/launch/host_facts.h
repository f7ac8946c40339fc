// What a host is and has: what `colla run` compares before it starts anything there, and what
// `colla doctor` shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"
#include "launch/agent_channel.h"

namespace colla::launch {

struct Interface {
  std::string name;
  std::string address;
};

struct HostFacts {
  std::string version;  // Colla's.
  std::string name;     // The host's own.
  std::string key;      // Equal for two names of the same host.
  std::string cpu;      // What numerical kernels choose their code by.
  int cores = 0;
  std::uint64_t memory = 0;  // Bytes, in all.
  std::string torch;         // libtorch's version, for Colla's own models; empty: none.
  std::string pythonTorch;   // The same for the python3 in PATH.
  std::string client;        // The address that ssh or srun came from, and the one
  std::string server;        // that it came to; empty without them.
  std::vector<Interface> interfaces;
  std::vector<std::string> rdma;  // Devices.
  std::string fastWire;           // The transport that prefers these; empty: none.
  std::uint64_t openFiles = 0;    // Limits of a process.
  std::uint64_t lockedMemory = 0;
  std::uint64_t sharedMemory = 0;  // Bytes that are free in /dev/shm.

  static HostFacts ofThis();
  Fields fields() const;
  static HostFacts from(const Fields& fields);
};

// The version of the torch that lies in `folder` or of the one that this python has; empty: none.
std::string torchVersionIn(const std::string& folder);
std::string torchVersionOf(const std::string& python);

// The first of `names` (between commas) that is an interface or an address of this host.
// kInvalidArgument, with what there is, if none is.
Result<std::string> chooseInterface(const std::string& names,
                                    const std::vector<Interface>& interfaces);

}  // namespace colla::launch
