// Loss and metrics of a whole data set, with the same bits for every number of workers.
//
// Called by every worker of a job. Errors are thrown as colla::Error.
#pragma once

#include <memory>

#include "colla/job.h"
#include "colla/trainer.h"
#include "train/replica.h"
#include "train/run_plan.h"

namespace colla::train {

// A mean over several outcomes, weighted by samples.
struct Mean {
  void add(const Outcome& outcome);
  Outcome value() const;
  Outcome sum;
};

// The plan's batch says how many samples at once. Every worker calls it, unless this one does it
// `alone`: with the same bits. `rows` as Exchange::rows().
Outcome evaluateAll(Replica& replica, const Workers& workers,
                    std::shared_ptr<const Dataset> dataset, const RunPlan& plan,
                    RowSource* rows = nullptr, bool alone = false);

// One worker of Trainer::evaluate(): the checkpoint that the plan resumes from, on the test part.
Evaluation evaluateCheckpoint(Job& job, const Task& task, const RunPlan& plan);

}  // namespace colla::train
