// What a job's store and its clients have in common: the launcher serves with it, processes
// connect with it.
#pragma once

#include <string>

#include "base/version.h"
#include "transport/options.h"

namespace colla::job {

// The version alone: the launcher knows nothing of the program's torch, and settings are compared
// between the processes themselves.
inline transport::Identity storeIdentity() {
  transport::Identity identity;
  identity.colla = version();
  return identity;
}

}  // namespace colla::job
