// colla-bench-train SOCKET SYSTEM RANK NP: one worker, for `colla bench train`, which starts it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/train_agent.h"
#include "colla/job.h"
#include "replica_trainee.h"

namespace {

colla::Status serve(const std::vector<std::string>& arguments) {
  const colla::bench::AgentPlace place{.socket = arguments[0],
                                       .system = arguments[1],
                                       .rank = std::atoi(arguments[2].c_str()),
                                       .np = std::atoi(arguments[3].c_str())};
  COLLA_TRY_ASSIGN(const auto job,
                   colla::Job::init({.torchVersion = TORCH_VERSION, .settings = {}}));
  colla::bench::ReplicaTrainee trainee(*job, place);
  return serveTrainAgent(place, trainee);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 4) {
    std::fprintf(stderr, "colla-bench-train: it is a part of colla bench train, which starts it\n");
    return 2;
  }
  const colla::Status status = serve(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", toString(status).c_str());
  return status.ok() ? 0 : 1;
}
