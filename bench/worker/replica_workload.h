// A worker that trains as the Trainer's session does: data set, order, loader and replica, without
// records and checkpoints. `prepare` and the rest as bench/trainings.h says.
//
// To be used by one thread. Throws colla::Error, and what libtorch throws.
#pragma once

#include <memory>
#include <optional>

#include "bench/agent.h"
#include "colla/dataset.h"
#include "colla/job.h"
#include "colla/model.h"
#include "colla/optimizer.h"
#include "colla/trainer.h"
#include "data/loader.h"
#include "data/order.h"
#include "train/replica.h"

namespace colla::bench {

class ReplicaWorkload : public Workload {
 public:
  // Worker place.rank of place.np, each with its share of every batch. They are one job, or each is
  // a job of its own.
  ReplicaWorkload(Job& job, const AgentPlace& place, Strategy strategy);
  ~ReplicaWorkload() override;

  Status prepare(const std::string& what) override;
  Result<double> verify(long steps) override;
  Status barrier() override;
  Status run(long steps) override;

 private:
  // A training from the first weights on, of slice `slice` of `slices` of every batch.
  struct Training;
  std::unique_ptr<Training> begin(std::int64_t batch, int slices, int slice);
  // Ends it: a server ends when all workers have left, and the next training has a new one.
  static void end(std::unique_ptr<Training>& training);

  Job& job_;
  const AgentPlace place_;
  std::optional<ps::PolicyOptions> policy_;
  std::int64_t batch_ = 0;
  std::int64_t share_ = 0;
  MakeModel model_;
  OptimizerOptions optimizer_;
  std::shared_ptr<const Dataset> data_;
  Array weights_;
  std::unique_ptr<Training> training_;
};

}  // namespace colla::bench
