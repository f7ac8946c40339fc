// A worker that trains as the Trainer's session does: data set, order, loader and replica, without
// records and checkpoints.
//
// To be used by one thread. Throws colla::Error, and what libtorch throws.
#pragma once

#include <memory>
#include <optional>

#include "bench/train_agent.h"
#include "colla/dataset.h"
#include "colla/job.h"
#include "colla/model.h"
#include "colla/optimizer.h"
#include "data/loader.h"
#include "data/order.h"
#include "train/replica.h"

namespace colla::bench {

class ReplicaTrainee : public Trainee {
 public:
  // Worker place.rank of place.np, each with its share of every batch. They are one job, or each is
  // a job of its own. With a `policy` they have servers.
  ReplicaTrainee(Job& job, const AgentPlace& place, std::optional<ps::PolicyOptions> policy);
  ~ReplicaTrainee() override;

  Status prepare(const TrainPoint& point) override;
  Result<double> verify(long steps) override;
  Result<double> measure(long steps) override;

 private:
  // A training from the first weights on, of slice `slice` of `slices` of every batch.
  struct Training;
  std::unique_ptr<Training> begin(std::int64_t batch, int slices, int slice);

  Job& job_;
  const AgentPlace place_;
  const std::optional<ps::PolicyOptions> policy_;
  TrainPoint point_;
  MakeModel model_;
  OptimizerOptions optimizer_;
  std::shared_ptr<const Dataset> data_;
  Array weights_;
  // Ends it: a server ends when all workers have left, and the next training begins with another.
  void end(std::unique_ptr<Training>& training);
  std::unique_ptr<Training> training_;
};

}  // namespace colla::bench
