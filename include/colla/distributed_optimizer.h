// The Trainer's pieces for programs that own their loop.
//
//   auto job = colla::valueOrThrow(colla::Job::init());
//   auto net = std::make_shared<Net>();
//   colla::broadcastParameters(*job, *net);
//   colla::DistributedOptimizer optimizer(*job, *net, colla::OptimizerOptions(colla::Adam{}));
//   for (int step = 0; step < 100; ++step) {
//     optimizer.zeroGrad();
//     // This worker's part of the batch.
//     torch::nn::functional::cross_entropy(net->forward(input), target).backward();
//     optimizer.step();
//   }
//
// Gradients leave while backward() runs and are averaged over all slices in the canonical order. A
// worker with several slices calls backward() once for each of them before step(): gradient
// accumulation, with the same bits for every number of workers.
//
// options.strategy chooses a different way to agree, with the same objects that the Trainer uses.
// Under one with servers, a process whose job.role() is kServer calls serve(job) (colla/server.h)
// instead.
//
// Errors are thrown as colla::Error. Not thread safe; all workers take the same steps.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "colla/error.h"
#include "colla/job.h"
#include "colla/trainer.h"

namespace colla {

struct DistributedOptions {
  double clipNorm = 0;  // Limit of the averaged gradients' global norm; 0: none.
  Strategy strategy = Strategy::kAllreduce;
  StrategyOptions strategyOptions = {};
  // Names of parameters whose gradients are sparse: tables, for strategies with servers.
  std::vector<std::string> rowSparse = {};
  // Parameters that are trained differently; those of a frozen group need no gradients from then
  // on.
  std::vector<ParameterGroup> groups = {};
};

class DistributedOptimizer {
 public:
  // Of all parameters of `module` that need gradients; job and module must outlive it.
  DistributedOptimizer(Job& job, torch::nn::Module& module, const Optimizer& optimizer,
                       const DistributedOptions& options = {});
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // The slices that this worker runs: one backward() for each of them, in this order.
  SliceRange slices() const;
  // Returns with the next parameters in place, made with `factor` times the learning rate. Where
  // this worker updates them itself, the averaged gradients are then in their .grad.
  void step(double factor = 1);
  // Counts the samples that this worker has computed gradients of, for colla_samples_total: only
  // the program knows them.
  void countSamples(std::int64_t samples);
  // local-sgd: averages now, on every worker; before an evaluation, a save, and at the end.
  void average();
  // As torch::optim has it; not needed for step().
  void zeroGrad();
  // Rank 0's state replaces that of every rank, as after it has loaded a checkpoint. Servers have
  // but one: then nothing happens. local-sgd: not between step() and the next average.
  void broadcastState();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Rank 0's parameters and buffers replace everybody's.
void broadcastParameters(Job& job, torch::nn::Module& module);

// The same for the state of a torch::optim class that a program steps itself. `module` is what the
// optimizer's parameters belong to.
void broadcastOptimizerState(Job& job, torch::optim::Optimizer& optimizer,
                             const torch::nn::Module& module);

}  // namespace colla
