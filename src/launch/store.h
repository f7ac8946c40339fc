// The job's store, served by `colla run` itself.
#pragma once

#include <memory>
#include <string>

#include "colla/status.h"
#include "launch/plan.h"
#include "rendezvous/store_server.h"

namespace colla::launch {

// Serves a store at `address` until the result goes away.
Result<std::unique_ptr<rendezvous::StoreServer>> serveStore(const std::string& address,
                                                            const std::string& jobId,
                                                            const std::string& secretHex);

// Tells those who wait in it where each process of the plan should be.
Status publishPlaces(const rendezvous::StoreServer& server, const Plan& plan);

}  // namespace colla::launch
