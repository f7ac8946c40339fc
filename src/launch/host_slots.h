// Hosts with places for processes, as horovodrun's -H and host files name them.
#pragma once

#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::launch {

struct HostSlots {
  std::string name;
  int slots = 1;  // At least one, at most kMaxProcesses.
};

// "a:2,b:4"; a host without a number has one slot. kInvalidArgument with the culprit.
Result<std::vector<HostSlots>> parseHostSlots(const std::string& text);

// Lines of "host slots=4"; what follows a # does not count. `path` is for messages.
Result<std::vector<HostSlots>> parseHostFile(const std::string& text, const std::string& path);

}  // namespace colla::launch
