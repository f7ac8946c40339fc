// The job's secret as an inherited descriptor: memory that only descendants of the launcher have
// open. Unlike an environment variable, no listing of processes shows it.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::rendezvous {

// Memory that holds `secret` and can't be changed. The descriptor is closed by exec unless the
// caller passes it on.
Result<UniqueFd> makeSecretDescriptor(const std::string& secret);

// The secret behind `descriptor` of this process or, if a program in between closed it (as Python's
// subprocess does), of the nearest ancestor that still has it. kRefused if nobody has.
Result<std::string> readSecretDescriptor(int descriptor);

}  // namespace colla::rendezvous
