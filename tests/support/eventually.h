// Waits for a condition, where a test can't be woken by what it waits for.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>

#include "base/deadline.h"

namespace colla::test {

// True as soon as `condition` is; false if it is not within the limit, which nothing reaches unless
// something is broken.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const Deadline deadline = Deadline::after(limit);
  while (!condition()) {
    if (deadline.expired()) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace colla::test
