// One worker's copy of the model, and what it computes: forward and backward of its slices. How the
// gradients become the next parameters is the exchange's business (train/exchange/exchange.h).
//
// Every slice of a step starts from the same parameters, the same buffers (BatchNorm's statistics)
// and a random stream of its own.
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
#include "colla/model.h"
#include "colla/trainer.h"
#include "train/exchange/exchange.h"
#include "train/exchange/slice_metrics.h"

namespace colla::train {

struct ReplicaOptions {
  std::uint64_t seed = 1;
  int threads = 1;
  bool bfloat16 = false;
  TrainMetrics* metrics = nullptr;  // What counts the time of forward and backward; may be null.
};

// What came of a step or of a batch of an evaluation, over all slices.
struct Outcome {
  double samples = 0;             // That loss and metrics are of.
  double trained = 0;             // Samples of all workers' gradients since this one's last step.
  double loss = 0;                // Mean over the samples.
  std::vector<double> metrics;    // The same.
  ps::Stop stop = ps::Stop::kNo;  // The strongest of all workers' reasons.
  // Under servers that do not wait for every worker:
  std::optional<std::int64_t> step = {};  // Updates made, if that is not one more than before.
  bool dropped = false;                   // This worker's gradients were.
};

// One step of a worker.
struct StepInput {
  std::int64_t step = 0;          // As people count, from 1: errors name it.
  std::int64_t batch = 0;         // Its number: random streams depend on it.
  std::int64_t samples = 0;       // That the slices' weights are shares of.
  std::int64_t allSamples = 0;    // Of all workers,
  int allSlices = 1;              // and their slices.
  double factor = 1;              // As in StepEnd,
  double plateau = 1;             // and this,
  std::int64_t saveAt = -1;       // and this.
  ps::Stop stop = ps::Stop::kNo;  // Why this worker would like to end.
  bool last = false;              // No step follows.
};

class Replica {
 public:
  // Makes the model with libtorch's generator seeded by options.seed.
  Replica(const MakeModel& make, const ReplicaOptions& options);

  // Gives the slices' batches, in order.
  using NextBatch = std::function<Batch()>;

  Outcome step(Exchange& exchange, SliceRange slices, const StepInput& input,
               const NextBatch& next);
  // Loss and metrics of `slices` of one global batch, summed by `metrics`, without gradients;
  // leaves everything as it was. `number` is the batch's, from 1, for errors; `rows` as
  // Exchange::rows().
  Outcome evaluate(std::int64_t number, SliceRange slices, SliceMetrics& metrics, RowSource* rows,
                   const NextBatch& next);
  // Which rows of each table `slices` of batch number `batch` read, by a forward that leaves
  // nothing behind.
  std::vector<std::vector<std::int64_t>> touchedRows(std::span<const Parameter> tables,
                                                     SliceRange slices, std::int64_t batch,
                                                     const NextBatch& next);

  // As people should see it: Model::shown().
  Outcome shown(Outcome outcome) const;

  Model& model() { return *model_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }  // That need gradients.
  const std::vector<Parameter>& frozen() const { return frozen_; }          // That need none.
  const std::vector<Parameter>& buffers() const { return buffers_; }
  // How many numbers each slice gives to the exchange and to SliceMetrics.
  std::size_t numbers() const { return numbers_.size(); }

  // Copies parameters and buffers to memory of the replica's own, before an exchange that has them
  // in memory of its own goes.
  void ownTensors();

  // From now on firstNotFinite() looks at buffers too, but not at those with such numbers now
  // (masks).
  void watchBuffers();
  // The first parameter, gradient or buffer with a number that is not finite; empty if there is
  // none.
  std::string firstNotFinite() const;

 private:
  // When the model computes, as its errors say it: "step 7".
  struct Moment {
    const char* kind;
    std::int64_t number;
  };
  Output compute(const Batch& batch);
  void runSlice(Moment moment, int slice, std::uint64_t stream, const Batch& batch,
                std::optional<double> weight, RowSource* rows);
  void rememberVersions(std::span<const Parameter> updated);
  void checkUntouched(std::span<const Parameter> updated) const;
  void rememberBuffers();
  void restoreBuffers();
  void addBuffers(Exchange& exchange, double weight);
  Outcome outcomeOf(std::span<const double> sums) const;

  const ReplicaOptions options_;
  std::unique_ptr<Model> model_;
  std::vector<Parameter> parameters_;
  std::vector<Parameter> frozen_;
  std::vector<Parameter> buffers_;
  std::vector<torch::Tensor> buffersBefore_;  // As they were before the step.
  std::vector<bool> watched_;                 // Buffers that firstNotFinite() looks at.
  std::vector<std::int64_t> versions_;        // Of updated parameters, as libtorch counts writes.
  std::vector<double> numbers_;               // Of one slice.
};

}  // namespace colla::train
