// How Colla's own ranks are started: as `colla run` does it, with the same variables, but as forks
// of this process and, for --net veth, in network namespaces.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "bench/colla_workload.h"
#include "bench/systems.h"
#include "job/environment.h"
#include "job/store_identity.h"
#include "rendezvous/secret.h"
#include "rendezvous/store_server.h"

namespace colla::bench {
namespace {

Status serve(const AgentPlace& place, Buffers buffers) {
  COLLA_TRY_ASSIGN(const auto job, Job::init());
  const auto workload = makeCollaWorkload(*job, buffers);
  return serveAgent(place, *workload);
}

Status serveStore(const rendezvous::StoreServerOptions& options) {
  COLLA_TRY_ASSIGN(const auto server, rendezvous::StoreServer::start(options));
  while (true) pause();  // Until the coordinator ends it.
}

// Where rank `rank` is; the lower half of the ranks is on one side of a veth pair.
job::Place placeOf(const Stage& stage, int rank) {
  job::Place place;
  place.launcher = "colla";
  place.rank = rank;
  place.size = stage.np;
  place.localRank = rank;
  place.localSize = stage.np;
  place.host = job::hostName();
  if (stage.veth != nullptr) {
    const int side = sideOf(rank, stage.np);
    const int lower = (stage.np + 1) / 2;
    place.localRank = side == 0 ? rank : rank - lower;
    place.localSize = side == 0 ? lower : stage.np - lower;
    place.host = fmt::format("side-{}", side);
  }
  return place;
}

}  // namespace

SystemSpec collaJob(const Stage& stage, const std::string& name, const std::string& transport,
                    const std::function<void(int rank, ProcessSpec& process)>& work) {
  // In a namespace of our own every port is free that no other system took.
  constexpr int kFirstPort = 29400;
  const std::string secret = rendezvous::makeSecret();
  rendezvous::StoreServerOptions store;
  store.jobId = fmt::format("bench-{}-{}", getpid(), name);
  store.secret = secret;
  store.identity = job::storeIdentity();
  store.address = stage.veth == nullptr ? fmt::format("unix:@colla-{}", store.jobId)
                                        : fmt::format("{}:{}", VethPair::address(0),
                                                      kFirstPort + stage.coordinator.systems());

  SystemSpec spec{name, stage.np, {}};
  ProcessSpec server;
  server.name = name + " store";
  server.body = [store] { return exitCode(serveStore(store)); };
  server.networkNamespace = stage.networkNamespace(0);
  spec.processes.push_back(std::move(server));

  for (int number = 0; number < stage.np + stage.servers; ++number) {
    const bool worker = number < stage.np;
    const int rank = worker ? number : number - stage.np;
    job::Place place = placeOf(stage, rank);
    place.servers = stage.servers;
    if (!worker) {
      place.role = Role::kServer;
      place.localSize = stage.servers;
    }
    place.jobId = store.jobId;
    place.store = store.address;
    place.secretHex = rendezvous::secretToHex(secret);
    ProcessSpec process;
    process.name = fmt::format("{} {} {}", name, worker ? "rank" : "server", rank);
    for (const auto& [variable, value] : job::toVariables(place)) {
      process.environment[variable] = value;
    }
    process.environment["COLLA_TRANSPORT"] = transport;
    process.environment["COLLA_THREADS"] = "1";
    if (stage.net != Net::kShm) {
      process.environment["COLLA_INTERFACE"] =
          std::string(stage.veth == nullptr ? "lo" : VethPair::kInterface);
    }
    process.networkNamespace = stage.networkNamespace(rank);
    work(number, process);
    spec.processes.push_back(std::move(process));
  }
  return spec;
}

SystemSpec collaSystem(const Stage& stage, const SystemInfo& info) {
  const Buffers buffers = info.buffers == "shared" ? Buffers::kShared : Buffers::kPrivate;
  return collaJob(stage, info.name, info.transport, [&](int rank, ProcessSpec& process) {
    const AgentPlace agent{stage.coordinator.socketPath(), info.name, rank, stage.np};
    process.body = [agent, buffers] { return exitCode(serve(agent, buffers)); };
  });
}

}  // namespace colla::bench
