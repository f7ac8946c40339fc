// Waiting for each other through the store: for start and end of a job, not for its steps.
#pragma once

#include <string>

#include "base/deadline.h"
#include "colla/status.h"
#include "rendezvous/store.h"

namespace colla::rendezvous {

// Returns once `count` processes have called it with this name; may be used again, also with the
// same name. kTimeout, with how many came.
Status barrier(Store& store, const std::string& name, int count, Deadline deadline);

}  // namespace colla::rendezvous
