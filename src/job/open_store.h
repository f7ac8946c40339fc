// A process's way to the job's store: serves it where that falls to this process, and connects.
#pragma once

#include <memory>
#include <string>

#include "base/deadline.h"
#include "colla/status.h"
#include "job/environment.h"
#include "rendezvous/store.h"
#include "rendezvous/store_server.h"

namespace colla::job {

struct OpenStore {
  // Where no launcher serves it: jobs that this process has at the same time share it.
  std::shared_ptr<rendezvous::StoreServer> server;
  std::unique_ptr<rendezvous::Store> store;
};

// Which process this is, and where it meets the others.
struct Meeting {
  Place place;
  // Of the process that serves the store, where it had to start before the others could be told.
  std::unique_ptr<rendezvous::StoreServer> server = nullptr;
};

// kInvalidArgument when other hosts can't reach the place's store, because it is on a loopback
// interface. A host's own name often leads there (127.0.1.1 in Debian's /etc/hosts).
Status checkReachable(const Place& place);

// Waits for whoever serves it, and says now and then for whom. kRefused when somebody else serves
// it in this process's place; kInvalidArgument when a job of several hosts has it on a loopback
// interface.
//
// `server` is the store that this process serves already, if any.
Result<OpenStore> openStore(const Place& place, std::unique_ptr<rendezvous::StoreServer> server,
                            const std::string& secret, Deadline deadline);

}  // namespace colla::job
