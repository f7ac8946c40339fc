#include "launch/store.h"

#include <map>

#include "job/store_identity.h"
#include "rendezvous/membership.h"
#include "rendezvous/secret.h"
#include "rendezvous/store.h"

namespace colla::launch {

Result<std::unique_ptr<rendezvous::StoreServer>> serveStore(const std::string& address,
                                                            const std::string& jobId,
                                                            const std::string& secretHex) {
  rendezvous::StoreServerOptions options;
  options.address = address;
  options.jobId = jobId;
  COLLA_TRY_ASSIGN(options.secret, rendezvous::loadSecret(secretHex.c_str(), /*path=*/""));
  options.name = "the store of colla run";
  options.identity = job::storeIdentity();
  return rendezvous::StoreServer::start(options);
}

Status publishPlaces(const rendezvous::StoreServer& server, const Plan& plan) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  COLLA_TRY_ASSIGN(const std::string secret,
                   rendezvous::loadSecret(plan.secretHex.c_str(), /*path=*/""));
  std::map<rendezvous::MemberId, std::string> places;
  for (const Process& process : plan.processes) {
    places[{process.role, process.rank}] = "on host " + process.host;
  }
  COLLA_TRY_ASSIGN(const auto client, rendezvous::Store::connect({.address = server.address(),
                                                                  .jobId = plan.jobId,
                                                                  .secret = secret,
                                                                  .name = "colla run",
                                                                  .identity = job::storeIdentity()},
                                                                 deadline));
  return rendezvous::publishPlacement(*client, places, deadline);
}

}  // namespace colla::launch
