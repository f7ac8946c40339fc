// One worker's copy of the model, and what it does in a step: its slices' forward and backward, the
// exchange, the update. After every step all replicas of a job are equal in every bit.
//
// Every slice of a step starts from the same parameters, the same buffers (BatchNorm's statistics)
// and a random stream of its own. New buffers are the canonical mean over the slices, weighted by
// samples as the gradients are; those that are not floating point (num_batches_tracked) are slice
// 0's.
//
// To be used by one thread. Errors are thrown as colla::Error.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colla/dataset.h"
#include "colla/job.h"
#include "colla/model.h"
#include "colla/trainer.h"
#include "train/reducer.h"
#include "train/servers.h"
#include "train/slice_metrics.h"
#include "train/table_routes.h"
#include "train/updater.h"

namespace colla::train {

struct ReplicaOptions {
  std::uint64_t seed = 1;
  double clipNorm = 0;  // 0: no clipping.
  bool bfloat16 = false;
  bool sparseAsDense = false;  // Gradients of rows are treated as whole ones.
  // Servers, for a strategy that has them: for everything, or for tables alone.
  std::optional<ps::PolicyOptions> policy = {};
  bool tablesAlone = false;
  int partitions = 0;  // Or kAutoPartitions.
  // tablesAlone: some tables may go by allreduce instead (train/table_routes.h).
  bool chooseRoutes = false;
  // What the last two look at in the constructor: this worker's slices of batch `look`.
  std::int64_t look = 0;
  std::function<Batch()> next = {};
};

// What came of a step or of a batch of an evaluation, over all slices.
struct Outcome {
  double samples = 0;           // That loss and metrics are of.
  double trained = 0;           // Those of all workers' gradients since this one's last step.
  double loss = 0;              // Mean over the samples.
  std::vector<double> metrics;  // The same.
  bool stop = false;            // Some worker was asked to.
  // Under servers that don't wait for everybody:
  std::optional<std::int64_t> step = {};  // Updates made, if that is not one more than before.
  bool dropped = false;                   // This worker's gradients were.
};

class Replica {
 public:
  // Makes the model with libtorch's generator seeded by options.seed, and takes over rank 0's
  // parameters and buffers. Every worker of the job calls it.
  Replica(Job& job, const SliceMap& map, const MakeModel& make, const Optimizer& optimizer,
          const ReplicaOptions& options);

  // Rank 0's parameters and buffers become everybody's; every worker calls it.
  void broadcastModel();

  // Begins to train: after restore, and before the first step. `optimizer`: its saved state, empty
  // for a new one; only counts under servers, and on worker 0.
  void start(std::int64_t step, std::span<const checkpoint::TensorView> optimizer);

  // Gives this worker's slices' batches, in order.
  using NextBatch = std::function<Batch()>;

  // Update number `step` (from 0), with `samples` in the global batch. `stop`: this worker would
  // like to end.
  Outcome step(std::int64_t step, std::int64_t samples, const NextBatch& next, double factor,
               bool stop);
  // The same for a worker that has no samples left while others do: servers alone.
  Outcome emptyStep(double factor, bool stop);
  // Loss and metrics of one global batch, without gradients; leaves everything as it was. Every
  // worker calls it, unless it is done `alone`: then this one runs all slices.
  Outcome evaluate(const NextBatch& next, bool alone = false);

  // As people are told it: Model::shown().
  Outcome shown(Outcome outcome) const;

  Model& model() { return *model_; }
  // Null where servers update everything.
  Updater* updater() { return updater_.get(); }
  // Null without.
  Servers* servers() { return servers_.get(); }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Those that updater() updates.
  const std::vector<Parameter>& updated() const { return updated_; }
  const std::vector<Parameter>& frozen() const { return frozen_; }
  const std::vector<Parameter>& buffers() const { return buffers_; }
  // The first parameter, gradient or buffer with a number that is not finite; empty if there is
  // none. A buffer that had one at start() (a mask) does not count, and none does before.
  std::string firstNotFinite() const;

 private:
  void makeExchange(const Optimizer& optimizer);
  std::vector<std::vector<std::int64_t>> touchedRows(std::span<const Parameter> tables);
  std::vector<TableRoute> chooseRoutes(std::span<const Parameter> tables,
                                       std::span<const std::vector<std::int64_t>> touched);
  int findPartitions(std::span<const Parameter> tables,
                     std::span<const std::vector<std::int64_t>> touched);
  void runSlice(int slice, std::uint64_t stream, const Batch& batch, std::optional<double> weight);
  void rememberVersions();
  void checkUntouched() const;
  void rememberBuffers();
  void restoreBuffers();
  void addBuffers(double weight);
  void keepFirst();
  void finishBuffers();
  Outcome reduceMetrics();
  Outcome outcomeOf(std::span<const double> sums) const;
  Outcome finishOnServers(ps::Finish finish);
  void update(double factor, double share, bool stop);

  Job& job_;
  const SliceMap map_;
  const ReplicaOptions options_;
  std::unique_ptr<Model> model_;
  std::vector<Parameter> parameters_;
  std::vector<Parameter> frozen_;  // Parameters that need no gradient.
  std::vector<Parameter> buffers_;
  std::vector<torch::Tensor> before_;  // The buffers as they were before the step.
  std::vector<torch::Tensor> first_;   // Those that can't be summed, as slice 0 left them.
  std::vector<bool> finite_;           // Those that were when training began.
  std::vector<int> bufferEntries_;     // Their numbers in the reducer; -1 unless floating point.
  std::unique_ptr<Reducer> reducer_;   // For what is not on servers, if anything is,
  std::vector<int> reduced_;           // and which parameters that is.
  std::vector<Parameter> updated_;
  std::unique_ptr<Servers> servers_;
  RowSource* source_ = nullptr;  // What lookups are told to.
  std::unique_ptr<Updater> updater_;
  std::vector<std::int64_t> versions_;  // Of updated_, as libtorch counts writes.
  std::unique_ptr<SliceMetrics> metrics_;
  std::vector<torch::Tensor> gradients_;
  std::vector<double> numbers_;  // Of one slice, for metrics_.
  std::vector<double> own_;      // Of this worker's slices, under servers.
  std::int64_t trained_ = 0;     // Samples of the gradients that servers have taken, as last told.
};

// Rank 0's values replace everybody's.
void broadcastTensors(Group& group, std::span<const Parameter> tensors);

}  // namespace colla::train
