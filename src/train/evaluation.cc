#include "train/evaluation.h"

#include <algorithm>
#include <array>

#include "checkpoint/directory.h"
#include "colla/error.h"
#include "data/loader.h"
#include "data/order.h"
#include "train/share_data.h"
#include "train/state.h"
#include "train/user_code.h"

namespace colla::train {

void Mean::add(const Outcome& outcome) {
  sum.samples += outcome.samples;
  sum.loss += outcome.loss * outcome.samples;
  sum.metrics.resize(outcome.metrics.size());
  for (std::size_t i = 0; i < outcome.metrics.size(); ++i) {
    sum.metrics[i] += outcome.metrics[i] * outcome.samples;
  }
}

Outcome Mean::value() const {
  Outcome mean = sum;
  const double divisor = std::max(sum.samples, 1.0);
  mean.loss /= divisor;
  for (double& metric : mean.metrics) metric /= divisor;
  return mean;
}

Outcome evaluateAll(Replica& replica, const Workers& workers,
                    std::shared_ptr<const Dataset> dataset, const RunPlan& plan, RowSource* rows,
                    bool alone) {
  const int slices = workers.map.slices();
  const auto order = valueOrThrow(data::Order::create({.samples = dataset->size(),
                                                       .batch = plan.batch,
                                                       .slices = slices,
                                                       .seed = plan.seed,
                                                       .shuffle = false}));
  data::LoaderOptions options;
  options.slices = alone ? SliceRange{0, slices} : workers.slices();
  options.endStep = order.batchesPerEpoch();
  options.step = "test batch";
  const auto loader = valueOrThrow(data::Loader::create(std::move(dataset), order, options));
  SliceMetrics metrics =
      alone ? SliceMetrics(slices, replica.numbers()) : SliceMetrics(workers, replica.numbers());
  Mean mean;
  for (std::int64_t batch = 0; batch < options.endStep; ++batch) {
    mean.add(replica.evaluate(batch + 1, options.slices, metrics, rows,
                              [&] { return valueOrThrow(loader->next()); }));
  }
  return mean.value();
}

Evaluation evaluateCheckpoint(Job& job, const Task& task, const RunPlan& plan) {
  const auto test = valueOrThrow(openPart(task, Part::kTest));
  const Workers workers = Workers::all(job);
  shareData(workers, std::array{test});
  Replica replica(task.model,
                  {.seed = plan.seed, .threads = job.threads(), .bfloat16 = plan.options.bfloat16});
  if (job.rank() == 0) {
    const checkpoint::Directory directory(checkpointsOf(plan.options.directory),
                                          checkpoint::Offer::kName);
    restoreModel(replica, valueOrThrow(directory.load(plan.resumeStep.value())));
  }
  broadcastModel(workers.group, replica);

  const Outcome outcome = replica.shown(evaluateAll(replica, workers, test, plan));
  return {.step = *plan.resumeStep,
          .samples = test->size(),
          .loss = outcome.loss,
          .names = replica.model().metrics(),
          .metrics = outcome.metrics};
}

}  // namespace colla::train
