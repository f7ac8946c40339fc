// How each system of `colla bench train` is started. One thread per worker.
#pragma once

#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "colla/status.h"

namespace colla::bench {

struct TrainSystem {
  std::string name;
  int workers = 1;
  // The workers know nothing of each other: their rates add up.
  bool independent = false;
  // Updates are made of whatever has come: its loss can't be that of others.
  bool asynchronous = false;
};

// By the name of a system's process: a worker, not a server or the like.
bool isWorker(const std::string& process);

// Colla's: the limit of two workers stands last.
std::vector<TrainSystem> collaTrainSystems();
// "torch" or "ddp".
TrainSystem peerTrainSystem(const std::string& name);

// One of collaTrainSystems(), as processes of `program` (src/bench_train).
SystemSpec startColla(Coordinator& coordinator, const TrainSystem& system,
                      const std::string& program);
// kNotFound, with what to install, where there is no Python that has torch.
Result<SystemSpec> startTorch(Coordinator& coordinator, const TrainSystem& system);

}  // namespace colla::bench
