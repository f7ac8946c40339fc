// One training of the language model on hosts of their own: `colla train lm`, started as users
// without a launcher start it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "bench/hybrid_network.h"
#include "colla/status.h"

namespace colla::bench {

// A way to train. `name` alone tells all of a run apart.
struct HybridSystem {
  std::string name;
  std::vector<std::string> flags;  // Of `colla train`.
  bool server = false;             // One, or none.
  bool shared = false;             // It runs on worker 0's host, not on one of its own.
};

// All of them: hybrid, ps-sync, allreduce-dense, allreduce-rows, hybrid-shared, ps-sync-shared.
std::vector<HybridSystem> hybridSystems();

// What is trained, alike in all systems.
struct HybridModel {
  int workers = 3;
  std::int64_t vocabulary = 200'000;
  std::int64_t width = 256;  // Of embedding and projection.
  std::int64_t units = 1024;
  std::int64_t candidates = 512;
  std::int64_t length = 20;
  std::int64_t batch = 24;  // Over all workers.
  std::string transport = "tcp-plain";
};

// What passes a host's link in one step.
struct LinkLoad {
  double sent = 0;
  double received = 0;
};

struct HybridRun {
  std::vector<double> stepSeconds;  // Of every step.
  // Of the workers' hosts, then of the server's if it has one of its own. Nothing where the steps
  // were too few to tell.
  std::optional<std::vector<LinkLoad>> loads;
};

class HybridJob {
 public:
  // `program` is colla. All must outlive this object.
  HybridJob(Coordinator& coordinator, const LimitedHosts& hosts, const HybridModel& model,
            std::string program)
      : coordinator_(coordinator), hosts_(hosts), model_(model), program_(std::move(program)) {}

  // Trains once, for `steps`. Where `checkpoints` is not empty, that directory gets the last one;
  // then times and loads tell little, because checkpoints pass the links too.
  Result<HybridRun> run(const HybridSystem& system, std::int64_t steps,
                        const std::string& checkpoints = {}) const;

 private:
  struct Training {
    std::int64_t steps;
    std::string checkpoints;  // Directory; empty: none.
    std::string times;        // File.
  };
  Result<std::vector<ProcessSpec>> processes(const HybridSystem& system,
                                             const Training& training) const;

  Coordinator& coordinator_;
  const LimitedHosts& hosts_;
  const HybridModel& model_;
  const std::string program_;
};

// The number of the last step that `output` of a worker tells of; 0 if it tells of none.
std::int64_t lastStepIn(const std::string& output);

// The seconds of every step in a file as of `colla train --json`.
Result<std::vector<double>> readStepSeconds(const std::string& path);

}  // namespace colla::bench
