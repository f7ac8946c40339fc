// One ps::Server after another, each for the workers of an epoch.
#include <cstdint>
#include <memory>
#include <utility>

#include "colla/server.h"
#include "ps/client_options.h"
#include "ps/server.h"

namespace colla {

Status serve(Job& job) {
  if (job.role() != Role::kServer) {
    return {StatusCode::kInvalidArgument, "this process is a worker: only servers serve"};
  }
  std::unique_ptr<ps::Holding> kept;
  for (std::uint32_t life = 0;; ++life) {
    const Epoch epoch = job.epoch();
    ps::Server server({.transport = job.transport(),
                       .rank = job.rank(),
                       .servers = job.servers(),
                       .workers = epoch.workers(),
                       .names = job.names(),
                       .peers = ps::peersOf(epoch, job),
                       .timeout = job.timeout(),
                       .threads = job.threads(),
                       .life = life},
                      std::move(kept));
    COLLA_TRY(server.run());
    if (!server.again()) return {};
    kept = server.takeKept();
    // The workers know who is in the next epoch.
    if (server.epochIsOver()) COLLA_TRY(job.replaceEpoch(std::nullopt));
  }
}

}  // namespace colla
