// What is wrong with a program's model or optimizer, said once, before any worker starts.
#pragma once

#include "base/deadline.h"
#include "colla/trainer.h"
#include "train/run_plan.h"

namespace colla::train {

// Whether the run has a use for the model's metrics: an early stop, a best checkpoint, plateaus.
bool goesByEvaluations(const Task& task, const RunPlan& plan);

// Makes a model of the task, and looks at what the run would refuse once it has one: metrics that
// it does not have, groups that do not fit it, parameters that the optimizer can't train, an
// optimizer that can't be saved. What the program's own code throws passes through.
Status checkModel(const Task& task, const RunPlan& plan);

// The same in a child process: this one, which starts the workers, must keep one thread, and has no
// use for the model's memory. Nothing if a child can't be had, or dies, or has not finished at the
// deadline, when it is killed: the workers will say why.
Status checkModelAside(const Task& task, const RunPlan& plan, Deadline deadline);

}  // namespace colla::train
