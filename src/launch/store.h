// The job's store, served by `colla run` itself.
#pragma once

#include <memory>

#include "colla/status.h"
#include "launch/plan.h"
#include "rendezvous/store_server.h"

namespace colla::launch {

// Serves the plan's store, with the place of every process in it, until the result goes away.
Result<std::unique_ptr<rendezvous::StoreServer>> serveStore(const Plan& plan);

}  // namespace colla::launch
