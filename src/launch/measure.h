// How fast one host reaches a different one: a round trip of one byte, and a stream, over TCP
// without encryption. For `colla doctor`.
#pragma once

#include <string>

#include "base/deadline.h"
#include "colla/status.h"

namespace colla::launch {

struct Speed {
  double roundTrip = 0;  // Seconds, the median.
  double bandwidth = 0;  // Bytes per second.
};

// Measures the way to the host that serves at `address`.
Result<Speed> measureTo(const std::string& address, Deadline deadline);

// The other side: accepts one connection at `listener` and answers until it ends.
void serveMeasurement(int listener, Deadline deadline);

}  // namespace colla::launch
