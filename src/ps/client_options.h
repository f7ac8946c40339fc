// Where the workers of a job's epoch and its servers find each other.
#pragma once

#include <vector>

#include "colla/epoch.h"
#include "colla/job.h"
#include "collective/group_core.h"
#include "ps/client.h"

namespace colla::ps {

// The transport's numbers of the epoch's workers, then of the job's servers.
inline std::vector<int> peersOf(const Epoch& epoch, const Job& job) {
  std::vector<int> peers(epoch.processes().begin(), epoch.processes().end());
  const int processes = static_cast<int>(job.names().size());
  for (int peer = processes - job.servers(); peer < processes; ++peer) peers.push_back(peer);
  return peers;
}

// Of a worker that takes part in the present epoch.
inline ClientOptions clientOptions(Job& job) {
  const Epoch epoch = job.epoch();
  return {.transport = job.transport(),
          .rank = epoch.rank(),
          .workers = epoch.workers(),
          .servers = job.servers(),
          .names = job.names(),
          .peers = peersOf(epoch, job),
          .timeout = job.timeout(),
          .allocate = [&job](std::size_t bytes) { return job.allocate(bytes); },
          .host = epoch.world().core().options().routes->host};
}

// Declaration::hosts of the job's present epoch: empty where nobody has a neighbour, or they share
// no memory.
inline std::vector<int> hostsOf(const Job& job) {
  const Topology topology = job.epoch().topology();
  bool shared = false;
  std::vector<int> hosts;
  for (int worker = 0; worker < topology.workers(); ++worker) {
    const int host = topology.hostOf(worker);
    const int first = topology.ranksOn(host).front();
    shared = shared || (first != worker && topology.sharesMemory(first, worker));
    hosts.push_back(host);
  }
  if (topology.hosts() == 1 || !shared) hosts.clear();
  return hosts;
}

}  // namespace colla::ps
