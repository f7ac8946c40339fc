// Whether this host reaches addresses of others: the interfaces that a job will use, before it
// needs them.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::launch {

// A socket that only lets others connect. Nobody has to accept: the kernel answers.
struct Door {
  UniqueFd socket;
  std::string address;  // "10.0.0.1:4000"
};
Result<Door> openDoor(const std::string& host);

// What came of connecting to each of `addresses`, all at the same time: empty, or what is wrong.
std::vector<std::string> tryToReach(const std::vector<std::string>& addresses, Deadline deadline);

}  // namespace colla::launch
