// Turns the summed gradients of a step into the next parameters, the same ones on every worker.
//
// Two of them: Colla's own kernels (optim/update_rule.h), and a colla::OwnOptimizer, which any
// torch::optim class can be made. Workers that share memory can have parameters and optimizer state
// in common: then each of them updates a part, and they meet. Otherwise each of them updates
// everything. Not thread safe; one per worker.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_view.h"
#include "colla/optimizer.h"
#include "colla/trainer.h"
#include "train/exchange/parameter.h"
#include "train/exchange/workers.h"

namespace colla::train {

class Updater {
 public:
  virtual ~Updater() = default;

  // gradients[i] belongs to parameter i; undefined: it had none in this step, and stays as it is.
  // A sparse one has rows that ascend, each once; the other rows stay as they are. `factor` is the
  // schedule's, `scale` multiplies the gradients (clipping).
  virtual void apply(std::span<const torch::Tensor> gradients, double factor, double scale) = 0;

  // What a checkpoint keeps, valid until the next call of any function.
  virtual std::vector<checkpoint::TensorView> state() = 0;
  virtual Status restore(std::span<const checkpoint::TensorView> saved) = 0;
};

// What `gradients` are to be multiplied by so that their global norm is at most `maxNorm` (0: no
// limit): summed in float64, in the order of the parameters.
double clipFactorOf(std::span<const torch::Tensor> gradients, double maxNorm);

// Of one gradient: of a sparse one row by row, so that it is the same whoever holds which rows.
double squaresOf(const torch::Tensor& gradient);

// The program's optimizer, where it is not one of Colla's: never null. Errors of its maker say so.
std::unique_ptr<torch::optim::Optimizer> makeTorch(const TorchOptimizer& optimizer,
                                                   std::vector<torch::Tensor> parameters);
std::unique_ptr<OwnOptimizer> makeOwn(const Optimizer& optimizer, NamedTensors parameters);

// kUnsupported for parameters that it can't train; throws what making the program's own throws.
Status checkOptimizer(const Optimizer& optimizer, std::span<const Parameter> parameters);

// `common`: workers whose hosts are to have parameters and optimizer state once each, if that can
// be; from then on the first worker of a host alone may write to the parameters. Must outlive the
// updater.
std::unique_ptr<Updater> makeUpdater(const Optimizer& optimizer, std::vector<Parameter> parameters,
                                     const Workers* common = nullptr);

}  // namespace colla::train
