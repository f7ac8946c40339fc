#include "launch/store.h"

#include <map>

#include "job/store_identity.h"
#include "rendezvous/membership.h"
#include "rendezvous/secret.h"
#include "rendezvous/store.h"

namespace colla::launch {

Result<std::unique_ptr<rendezvous::StoreServer>> serveStore(const Plan& plan) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  COLLA_TRY_ASSIGN(const std::string secret,
                   rendezvous::loadSecret(plan.secretHex.c_str(), /*path=*/""));
  rendezvous::StoreServerOptions options;
  options.address = plan.store;
  options.jobId = plan.jobId;
  options.secret = secret;
  options.name = "the store of colla run";
  options.identity = job::storeIdentity();
  COLLA_TRY_ASSIGN(auto server, rendezvous::StoreServer::start(options));

  std::map<rendezvous::MemberId, std::string> places;
  for (const Process& process : plan.processes) {
    places[{process.role, process.rank}] = "on host " + plan.host;
  }
  COLLA_TRY_ASSIGN(const auto client, rendezvous::Store::connect({.address = server->address(),
                                                                  .jobId = plan.jobId,
                                                                  .secret = secret,
                                                                  .name = "colla run",
                                                                  .identity = options.identity},
                                                                 deadline));
  COLLA_TRY(rendezvous::publishPlacement(*client, places, deadline));
  return server;
}

}  // namespace colla::launch
