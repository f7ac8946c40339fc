#include <cstdint>

#include "colla/server.h"
#include "ps/server.h"

namespace colla {

Status serve(Job& job) {
  if (job.role() != Role::kServer) {
    return {StatusCode::kInvalidArgument, "this process is a worker: only servers serve"};
  }
  const auto names = job.names();
  for (std::uint32_t life = 0;; ++life) {
    ps::Server server({.transport = job.transport(),
                       .rank = job.rank(),
                       .servers = job.servers(),
                       .workers = static_cast<int>(names.size()) - job.servers(),
                       .names = names,
                       .timeout = job.timeout(),
                       .threads = job.threads(),
                       .life = life});
    COLLA_TRY(server.run());
    if (!server.again()) return {};
  }
}

}  // namespace colla
