#include "parameter_server.h"

#include "colla/server.h"

namespace colla::bench {

std::optional<ps::PolicyOptions> policyOf(Strategy strategy, int workers) {
  if (!hasServers(strategy)) return {};
  ps::PolicyOptions policy;
  policy.workers = workers;
  if (strategy == Strategy::kPsAsync) policy.consistency = ps::Consistency::kAsync;
  return policy;
}

Status serveParameters(Job& job) {
  while (true) COLLA_TRY(serve(job));
}

}  // namespace colla::bench
