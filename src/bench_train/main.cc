// colla-bench-train SOCKET SYSTEM RANK NP [STRATEGY]: one worker, or a server of STRATEGY's, for
// `colla bench train` and `colla bench ps`, which start it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/train_agent.h"
#include "colla/job.h"
#include "colla/trainer.h"
#include "parameter_server.h"
#include "replica_trainee.h"

namespace {

colla::Status serve(const std::vector<std::string>& arguments) {
  const colla::bench::AgentPlace place{.socket = arguments[0],
                                       .system = arguments[1],
                                       .rank = std::atoi(arguments[2].c_str()),
                                       .np = std::atoi(arguments[3].c_str())};
  COLLA_TRY_ASSIGN(
      const auto job,
      colla::Job::init({.torchVersion = TORCH_VERSION, .settings = {}, .serves = true}));
  if (job->role() == colla::Role::kServer) return colla::bench::serveParameters(*job);
  COLLA_TRY_ASSIGN(const auto strategy,
                   colla::parseStrategy(arguments.size() > 4 ? arguments[4] : "allreduce"));
  colla::bench::ReplicaTrainee trainee(*job, place, colla::bench::policyOf(strategy, place.np));
  return serveTrainAgent(place, trainee);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 4 && arguments.size() != 5) {
    std::fprintf(stderr, "colla-bench-train: it is a part of colla bench, which starts it\n");
    return 2;
  }
  const colla::Status status = serve(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", toString(status).c_str());
  return status.ok() ? 0 : 1;
}
