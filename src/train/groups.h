// A task's groups of parameters, on the model: which parameters are frozen, and which have an
// optimizer of their own.
#pragma once

#include <span>
#include <vector>

#include "colla/trainer.h"
#include "train/exchange/parameter.h"

namespace colla::train {

// Parameters of `module` in frozen groups need no gradients from now on. Throws colla::Error with
// kInvalidArgument for groups that do not fit the module: see optim::groupsOf().
void freeze(torch::nn::Module& module, std::span<const ParameterGroup> groups);

// task.model, with frozen groups.
MakeModel modelMakerOf(const Task& task);

// The same parameters, those in a group with its optimizer. `groups` fit them: see freeze().
std::vector<Parameter> withOptimizers(std::vector<Parameter> parameters, const Optimizer& base,
                                      std::span<const ParameterGroup> groups);

}  // namespace colla::train
