#include "bench/train_systems.h"

#include <fmt/format.h>

#include <iterator>

#include "bench/peers/embedded.h"
#include "bench/systems.h"

namespace colla::bench {

std::vector<TrainSystem> collaTrainSystems() {
  return {{"colla-1", 1, false}, {"colla-2", 2, false}, {"colla-2x1", 2, true}};
}

TrainSystem peerTrainSystem(const std::string& name) {
  return {name, name == "ddp" ? 2 : 1, false};
}

bool isWorker(const std::string& process) { return process.find(" rank ") != std::string::npos; }

SystemSpec startColla(Coordinator& coordinator, const TrainSystem& system,
                      const std::string& program) {
  // `first` is the worker that rank 0 of the job is.
  const auto job = [&](const std::string& name, int np, int first) {
    const Stage stage{coordinator, np, Net::kShm, nullptr};
    return collaJob(stage, name, "shm", [&](int rank, ProcessSpec& process) {
      process.name = fmt::format("{} rank {}", system.name, first + rank);
      process.program = {program, coordinator.socketPath(), system.name,
                         fmt::format("{}", first + rank), fmt::format("{}", system.workers)};
      process.environment["OMP_NUM_THREADS"] = std::string("1");
    });
  };
  if (!system.independent) return job(system.name, system.workers, 0);

  SystemSpec all{system.name, system.workers, {}};
  for (int worker = 0; worker < system.workers; ++worker) {
    SystemSpec one = job(fmt::format("{}-{}", system.name, worker), 1, worker);
    std::ranges::move(one.processes, std::back_inserter(all.processes));
  }
  return all;
}

Result<SystemSpec> startTorch(Coordinator& coordinator, const TrainSystem& system) {
  COLLA_TRY_ASSIGN(const std::string python, findPythonWithTorch(coordinator));
  const Scratch& scratch = coordinator.scratch();
  COLLA_TRY_ASSIGN(const std::string script, scratch.write("torch_agent.py", kTorchAgent));
  COLLA_TRY(scratch.write("torch_models.py", kTorchModels).status());

  SystemSpec spec{system.name, system.workers, {}};
  for (int rank = 0; rank < system.workers; ++rank) {
    ProcessSpec process;
    process.name = fmt::format("{} rank {}", system.name, rank);
    process.program = {python,
                       script,
                       coordinator.socketPath(),
                       system.name,
                       fmt::format("{}", rank),
                       fmt::format("{}", system.workers),
                       scratch.path(system.name + "_store")};
    process.environment["GLOO_SOCKET_IFNAME"] = std::string("lo");
    // A folder that torch makes even where nothing is compiled; it goes with the rest.
    process.environment["TORCHINDUCTOR_CACHE_DIR"] = scratch.path("inductor");
    process.environment["OMP_NUM_THREADS"] = std::string("1");
    spec.processes.push_back(std::move(process));
  }
  return spec;
}

}  // namespace colla::bench
