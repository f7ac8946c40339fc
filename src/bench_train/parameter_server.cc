#include "parameter_server.h"

#include "ps/server.h"

namespace colla::bench {

std::optional<ps::PolicyOptions> policyOf(Strategy strategy, int workers) {
  if (!hasServers(strategy)) return {};
  ps::PolicyOptions policy;
  policy.workers = workers;
  if (strategy == Strategy::kPsAsync) policy.consistency = ps::Consistency::kAsync;
  return policy;
}

Status serveParameters(Job& job) {
  const int workers = static_cast<int>(job.names().size()) - job.servers();
  while (true) {
    ps::Server server({.transport = job.transport(),
                       .rank = job.rank(),
                       .servers = job.servers(),
                       .workers = workers,
                       .names = job.names(),
                       .timeout = job.timeout()});
    COLLA_TRY(server.run());
  }
}

}  // namespace colla::bench
