// One ps::Server after another, each for the workers of an epoch.
#include <cstdint>
#include <memory>
#include <utility>

#include "colla/server.h"
#include "ps/server.h"

namespace colla {

Status serve(Job& job) {
  if (job.role() != Role::kServer) {
    return {StatusCode::kInvalidArgument, "this process is a worker: only servers serve"};
  }
  const auto names = job.names();
  std::unique_ptr<ps::Holding> kept;
  for (std::uint32_t life = 0;; ++life) {
    ps::Server server({.transport = job.transport(),
                       .rank = job.rank(),
                       .servers = job.servers(),
                       .workers = static_cast<int>(names.size()) - job.servers(),
                       .names = names,
                       .timeout = job.timeout(),
                       .threads = job.threads(),
                       .life = life},
                      std::move(kept));
    COLLA_TRY(server.run());
    if (!server.again()) return {};
    kept = server.takeKept();
  }
}

}  // namespace colla
