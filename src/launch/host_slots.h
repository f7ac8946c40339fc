// Hosts with places for processes, as -H and host files name them.
#pragma once

#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::launch {

struct HostSlots {
  std::string name;  // An IPv6 address without its brackets.
  int slots = 1;     // At least one, at most kMaxProcesses.
};

// "a:2,b:4,[fd00::7]:2"; a host without a number has one slot. kInvalidArgument with the culprit;
// `flag` is for messages.
Result<std::vector<HostSlots>> parseHostSlots(const std::string& text,
                                              const std::string& flag = "-H");

// Lines of "host slots=4", as for Horovod and Open MPI, or of "host:4", as for MPICH; what follows
// a # does not count. `path` is for messages.
Result<std::vector<HostSlots>> parseHostFile(const std::string& text, const std::string& path);

// The same from the file.
Result<std::vector<HostSlots>> readHostFile(const std::string& path);

}  // namespace colla::launch
