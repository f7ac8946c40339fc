// colla-bench-train, a part of `colla bench train` and `colla bench ps`, which start it:
//   SOCKET SYSTEM RANK NP STRATEGY   one worker, or a server of STRATEGY's
//   files MODEL SAMPLES PATH         writes what the workers train on
//   epochs STRATEGY CHANGES FILE     one process of a training whose workers change
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/models.h"
#include "bench/worker/epochs.h"
#include "bench/worker/files.h"
#include "bench/worker/replica_workload.h"
#include "colla/job.h"
#include "colla/server.h"
#include "colla/trainer.h"

namespace colla::bench {
namespace {

Status serveAs(const std::vector<std::string>& arguments) {
  const AgentPlace place{.socket = arguments[0],
                         .system = arguments[1],
                         .rank = std::atoi(arguments[2].c_str()),
                         .np = std::atoi(arguments[3].c_str())};
  COLLA_TRY_ASSIGN(const auto strategy, parseStrategy(arguments[4]));
  COLLA_TRY_ASSIGN(const auto job,
                   Job::init({.torchVersion = TORCH_VERSION, .settings = {}, .serves = true}));
  while (job->role() == Role::kServer) {  // One training after another, until a worker is lost.
    COLLA_TRY(serve(*job));
  }
  ReplicaWorkload workload(*job, place, strategy);
  return serveAgent(place, workload);
}

Status makeFiles(const std::vector<std::string>& arguments) {
  COLLA_TRY_ASSIGN(const BenchModel* const model, parseModel(arguments[1]));
  return writeFiles(*model, std::atoll(arguments[2].c_str()), arguments[3]);
}

Status run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 5) return serveAs(arguments);
  if (arguments[0] == "files") return makeFiles(arguments);
  return trainInEpochs(arguments[1], std::atol(arguments[2].c_str()), arguments[3]);
}

int main(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5 && arguments.size() != 4) {
    std::fprintf(stderr, "colla-bench-train: it is a part of colla bench, which starts it\n");
    return 2;
  }
  const Status status = run(arguments);
  if (!status.ok()) std::fprintf(stderr, "%s\n", toString(status).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace colla::bench

int main(int argc, char** argv) { return colla::bench::main({argv + 1, argv + argc}); }
