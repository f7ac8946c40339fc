// Whether an optimizer that is not Colla's does what a run needs of it. Nothing in libtorch's
// interface tells whether a class keeps state where a checkpoint finds it, or reads the rate that a
// schedule sets: so it is tried out, on copies of the parameters.
#pragma once

#include <span>

#include "colla/trainer.h"
#include "train/exchange/parameter.h"
#include "train/run_plan.h"

namespace colla::train {

// kUnsupported, with the reason, for an optimizer that can't be saved and restored exactly although
// the run saves, or that ignores the run's schedule. Colla's optimizers and those of libtorch
// itself are known to do both.
Status tryOptimizer(const Task& task, const RunPlan& plan, std::span<const Parameter> parameters);

}  // namespace colla::train
