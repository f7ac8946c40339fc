// How gradients change parameters: the choice of an optimizer and its numbers.
//
// Names, formulas and defaults are those of torch.optim; the arithmetic is Colla's own, because
// parameter servers run it without torch. Plain values, safe to copy between threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "colla/status.h"

namespace colla {

struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weightDecay = 0;
  bool nesterov = false;  // Needs a momentum and no dampening.

  friend bool operator==(const Sgd&, const Sgd&) = default;
};

struct Adagrad {
  double lr = 1e-2;
  double lrDecay = 0;
  double weightDecay = 0;
  double initialAccumulator = 0;
  double epsilon = 1e-10;

  friend bool operator==(const Adagrad&, const Adagrad&) = default;
};

struct RmsProp {
  double lr = 1e-2;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weightDecay = 0;
  double momentum = 0;
  bool centered = false;

  friend bool operator==(const RmsProp&, const RmsProp&) = default;
};

// Weight decay is added to the gradient.
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weightDecay = 0;
  bool amsgrad = false;

  friend bool operator==(const Adam&, const Adam&) = default;
};

// Weight decay shrinks the parameter itself, beside the gradient.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weightDecay = 1e-2;
  bool amsgrad = false;

  friend bool operator==(const AdamW&, const AdamW&) = default;
};

using OptimizerOptions = std::variant<Sgd, Adagrad, RmsProp, Adam, AdamW>;

// The defaults of "sgd", "momentum" (SGD with a momentum of 0.9), "adagrad", "rmsprop", "adam" or
// "adamw"; or with other numbers, as toString() writes them: "adam beta1=0.8".
Result<OptimizerOptions> parseOptimizer(std::string_view name);
// The names that it takes: "sgd, momentum, …".
std::string optimizerNames();

// kInvalidArgument, with the name and value of the number that can't be used.
Status validate(const OptimizerOptions& options);

// One line that is equal for equal options and different for different ones, such as
// "sgd lr=0.1 momentum=0.9 dampening=0 weight_decay=0 nesterov=false". Checkpoints hold it.
std::string toString(const OptimizerOptions& options);

// The rate that all of them have, whichever it is. A schedule multiplies it: colla/schedule.h.
double learningRate(const OptimizerOptions& options);
void setLearningRate(OptimizerOptions& options, double lr);

// Parameters that are trained differently from the others:
//
//   task.optimizer = colla::AdamW{.lr = 1e-3};
//   task.groups = {{.parameters = "embedding.*", .lrFactor = 0.1},
//                  {.parameters = "*.bias", .weightDecay = 0},
//                  {.parameters = "head.*", .optimizer = colla::Sgd{.lr = 0.1}},
//                  {.parameters = "backbone.*", .frozen = true}};
//
// Each group has at least one parameter, and no parameter is in two groups.
struct ParameterGroup {
  // The parameters' names: * stands for any characters, ? for one, [ab] for one of these.
  std::string parameters = {};
  std::optional<OptimizerOptions> optimizer = {};  // Nothing: that of the other parameters.
  double lrFactor = 1;                             // Multiplies the optimizer's learning rate.
  std::optional<double> weightDecay = {};          // Nothing: the optimizer's.
  bool frozen = false;                             // They are not trained, and take no options.

  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

// kInvalidArgument, with the group's pattern, for a group that can't be, whatever the model.
Status validate(const ParameterGroup& group);

// One line, as toString() of an optimizer: "\"head.*\": sgd lr=0.1 …", "\"*.bias\":
// weight_decay=0".
std::string toString(const ParameterGroup& group);

}  // namespace colla
