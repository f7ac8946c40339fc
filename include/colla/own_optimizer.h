// An optimizer of a program's own, with all that a Trainer needs to know of it: how to save it, how
// to go on from what was saved, and how a schedule changes its learning rate.
//
//   struct Signs : colla::OwnOptimizer {
//     explicit Signs(colla::NamedTensors all) : parameters(std::move(all)) {}
//     void step() override {
//       const torch::NoGradGuard guard;
//       for (auto& [name, tensor] : parameters) {
//         if (tensor.grad().defined()) tensor.sub_(tensor.grad().sign(), rate);
//       }
//     }
//     // The next step depends on the rate alone, and the schedule sets that.
//     colla::NamedTensors state() const override { return {}; }
//     void restore(const colla::NamedTensors&) override {}
//     void setLearningRate(double factor) override { rate = 0.001 * factor; }
//
//     colla::NamedTensors parameters;
//     double rate = 0.001;
//   };
//
//   colla::Task task;
//   task.optimizer = colla::OwnOptimizerMaker{
//       .make = [](colla::NamedTensors parameters) {
//         return std::make_unique<Signs>(std::move(parameters));
//       },
//       .text = "signs lr=0.001"};
//
// A run that saves or has a schedule tries the optimizer out on copies of the parameters before its
// first step, and refuses one that after a restore steps differently, or whose rate stays as it is.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace colla {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// One for each worker. Every worker makes the same steps with the same gradients, so step() must
// not depend on anything else: for randomness, keep a seed in the state. Used by one thread.
class OwnOptimizer {
 public:
  virtual ~OwnOptimizer() = default;

  // Changes the parameters by their .grad(). One whose gradient is undefined stays as it is.
  virtual void step() = 0;
  // All that the next step depends on, except parameters and gradients, under names of its own
  // choice; numbers are tensors without dimensions. Checkpoints hold it.
  virtual NamedTensors state() const = 0;
  // Becomes the optimizer that state() was called of, maybe in an earlier run.
  virtual void restore(const NamedTensors& state) = 0;
  // From now on every learning rate is the one that the optimizer was made with, times `factor`.
  virtual void setLearningRate(double factor) = 0;
};

// What Task::optimizer is for an optimizer of the program's own.
struct OwnOptimizerMaker {
  // `parameters`: those that are trained, in the model's order.
  std::function<std::unique_ptr<OwnOptimizer>(NamedTensors parameters)> make;
  std::string text;  // What it is: checkpoints hold it, and a resumed run that differs warns.
};

// A torch::optim class as an OwnOptimizer, to put several of them together: state() names what it
// keeps "PARAMETER/…", and restore() takes its own from the state of all of them. `parameters` has
// at least those of the optimizer. Throws colla::Error for torch::optim::LBFGS, whose step() needs
// a closure.
std::unique_ptr<OwnOptimizer> asOwnOptimizer(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                             NamedTensors parameters);

}  // namespace colla
