// How each system of `colla bench ps` is started: two workers with one thread each, and one server.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "bench/train_systems.h"
#include "colla/status.h"

namespace colla::bench {

// Colla's: with a server, and allreduce beside it.
std::vector<TrainSystem> collaPsSystems();
// "mxnet" or "tf".
TrainSystem peerPsSystem(const std::string& name);

// One of collaPsSystems(), as processes of `program` (src/bench_train).
SystemSpec startCollaPs(Coordinator& coordinator, const TrainSystem& system,
                        const std::string& program);
// A peer, with the Python of its environment (peer_python.h).
Result<SystemSpec> startMxnet(Coordinator& coordinator, const TrainSystem& system,
                              const std::string& python);
Result<SystemSpec> startTensorFlow(Coordinator& coordinator, const TrainSystem& system,
                                   const std::string& python);

// Whether a process of such a system is a parameter server, by its name.
bool isServer(const std::string& process);

}  // namespace colla::bench
