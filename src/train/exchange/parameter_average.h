// Averages the parameters of workers that train by themselves, in the canonical order, and moves
// all workers to the same point: local SGD and, with an outer optimizer, DiLoCo.
//
// What travels is how far each worker has moved since the last average. With d the mean of that
// over slices, the new parameters are the old common ones moved by SGD with Nesterov momentum along
// -d. At rate 1 and without momentum they are the mean of the workers' parameters. Of a table only
// the rows travel that touch() was called for; the others stay as they are.
//
// Floating-point buffers become their mean; others become those of the worker that has slice 0.
//
// Not thread safe: one per worker, and every worker makes the same calls. Errors are thrown as
// colla::Error.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_view.h"
#include "colla/trainer.h"
#include "ps/stop.h"
#include "train/exchange/parameter.h"
#include "train/exchange/reducer.h"
#include "train/exchange/workers.h"

namespace colla::train {

class ParameterAverage {
 public:
  // `tables` are the names of the parameters of which touch() says what changes.
  ParameterAverage(const Workers& workers, std::vector<Parameter> parameters,
                   std::span<const std::string> tables, std::vector<Parameter> buffers,
                   const LocalSgdOptions& options, TrainMetrics* metrics = nullptr);

  // Every worker has the same values in all tensors now, as at construction: the next average is of
  // what they change from here on.
  void begin();
  // This worker has changed these rows of a table since the last average, maybe not for the first
  // time.
  void touch(int parameter, const torch::Tensor& rows);
  // All workers get the same parameters and buffers. `share` is the weight of each of this worker's
  // slices; over all slices of all workers shares add up to 1. The strongest
  // of all workers' reasons to stop.
  ps::Stop average(double share, ps::Stop stop);

  // For each parameter, the outer optimizer's momentum (undefined without) and the value after the
  // last average: the tensors themselves, which a caller may change between averages, the same way
  // on every worker.
  std::vector<torch::Tensor> momenta() const;
  std::vector<torch::Tensor> start() const;

  // The outer optimizer's state, for a checkpoint: "NAME/outer_momentum". Empty without momentum.
  std::vector<checkpoint::TensorView> state() const;
  // Takes its own from `saved`, the same on every worker, and returns the rest.
  std::vector<checkpoint::TensorView> restore(std::span<const checkpoint::TensorView> saved);

 private:
  struct Moved {
    Parameter parameter;
    bool table = false;
    torch::Tensor common;                  // The parameter as it was after the last average,
    torch::Tensor momentum;                // and the outer optimizer's; undefined without.
    std::vector<torch::Tensor> rows = {};  // Of a table: touched since then.
  };

  std::vector<Reducer::Entry> entries() const;
  void addSlice(int slice, std::span<const torch::Tensor> moves, double share, ps::Stop stop);
  static torch::Tensor moveOf(const Moved& moved, double share);
  void moveAll(Moved& moved, const torch::Tensor& mean) const;

  const Workers workers_;
  const LocalSgdOptions options_;
  std::vector<Moved> moved_;
  const std::vector<Parameter> buffers_;
  std::vector<torch::Tensor> commonBuffers_;  // As they were after the last average.
  TrainMetrics* const metrics_;
  std::optional<Reducer> reducer_;
};

}  // namespace colla::train
