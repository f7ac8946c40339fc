// A strategy at work: takes one worker's gradients slice by slice and makes the next parameters of
// them, together with the other workers. Model, data and session know nothing of how.
//
// A step is beginStep(), then for each of the worker's slices in ascending order: beginSlice();
// backward(), whose gradients hooks take the moment autograd has them; addBuffer() for each buffer,
// if the slice has samples; addNumbers(); endSlice(). Then finish(), which returns with the next
// parameters in place.
// Gradients, buffers and numbers of a step travel together.
//
// One file per strategy implements this; makeExchange() picks one. Not thread safe: one per worker,
// and every worker makes the same calls. Errors are thrown as colla::Error.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/saver.h"
#include "checkpoint/tensor_view.h"
#include "colla/trainer.h"
#include "ps/wire.h"
#include "train/exchange/parameter.h"
#include "train/exchange/workers.h"
#include "train/metrics.h"
#include "train/row_lookup.h"
#include "train/torch_state.h"

namespace colla::train {

// What a run makes of its strategy's Pacing, and of the servers' options.
struct StepRules {
  // All workers evaluate together. Otherwise the one that records does so alone.
  bool evaluateTogether = true;
  // An update is made of one batch of all workers. Otherwise each worker's gradients are an update
  // of their own.
  bool updatePerBatch = true;
  // A worker's gradients are means over its own samples, not shares of the global batch's mean.
  bool ownMeans = false;
};

// What a worker says at the end of its slices.
struct StepEnd {
  double share = 0;          // Of the global batch's samples.
  std::int64_t samples = 0;  // This worker's.
  std::int64_t batch = 0;    // All workers' samples of this step.
  double factor = 1;         // Of the learning rate: the schedule's,
  double plateau = 1;        // and what plateaus have multiplied it by.
  // The recorder: the step that it will want to save next, if servers may pass it on their own; -1:
  // none.
  std::int64_t saveAt = -1;
  bool empty = false;  // It had no slices to run, while others may have.
  bool last = false;   // No step follows.
};

// What came of a step.
struct StepResult {
  // Sums over the slices that the numbers are known of: all, or this worker's.
  std::vector<double> numbers;
  double trained = 0;                     // Samples of all gradients used since the last step.
  ps::Stop stop = ps::Stop::kNo;          // The strongest of all workers' reasons.
  std::optional<std::int64_t> step = {};  // Updates made, if that is not one more than before.
  bool dropped = false;                   // This worker's gradients were.
};

// Where a checkpoint gets what an exchange has.
struct ExchangeState {
  std::int64_t step = 0;  // Servers may be further on than this worker knows.
  std::vector<checkpoint::TensorView> parameters, buffers, optimizer;
  checkpoint::Saver::More later = nullptr;  // More, to be read while the training goes on.
};

// What a save of `step` ends with instead of a checkpoint when a tensor with this name is not
// finite.
using Refusal = std::function<Status(std::int64_t step, const std::string& tensor)>;

class Exchange {
 public:
  virtual ~Exchange() = default;

  // `stop`: why this worker would like to end.
  virtual void beginStep(ps::Stop stop) = 0;
  virtual void beginSlice(int slice) = 0;
  // A buffer as the slice left it; one that is floating point comes multiplied by the slice's
  // weight. `changed`: the slice wrote to it.
  virtual void addBuffer(int buffer, const torch::Tensor& value, bool changed) = 0;
  virtual void addNumbers(std::span<const double> numbers) = 0;
  virtual void endSlice() = 0;
  // Slices of this step that have not ended yet.
  virtual int missingSlices() const = 0;
  virtual StepResult finish(const StepEnd& end) = 0;

  // After construction and before the first step: training goes on after `step`, with the
  // optimizer's state in `saved`, of which rank 0's counts; nothing: with a new one.
  using SavedState = std::optional<std::span<const checkpoint::TensorView>>;
  virtual void start(std::int64_t step, const SavedState& saved) = 0;
  // For the recorder. `step`: the one that it is at, or that it had announced (StepEnd::saveAt):
  // servers that have a copy of that step give it. `refusal` (may be null) ends a save whose
  // tensors are not finite, where only reading them shows it. What it points to is valid until the
  // next call of any function.
  virtual ExchangeState state(std::int64_t step, const Refusal& refusal) = 0;

  // Ends this worker's part in an epoch, between two steps. The model's tensors must be its own by
  // then (Replica::ownTensors()). Returns copies of the optimizer's state, where workers hold it;
  // servers keep theirs for the next epoch.
  virtual NamedTensors leaveEpoch() = 0;
  // Instead of start(), in the epoch after that: goes on with what leaveEpoch() returned on rank
  // 0, who was in the epoch before, and with what servers have kept.
  virtual void enterEpoch(std::int64_t step, std::span<const checkpoint::TensorView> state) = 0;

  // Those that this worker updates itself, as against servers.
  virtual std::span<const Parameter> updated() const = 0;
  // All workers have the same parameters: a good time to evaluate and to save.
  virtual bool settled() const { return true; }
  // Makes that so now; every worker calls it.
  virtual void settle() {}
  // What brings rows of tables up to date before a lookup reads them; may be null.
  virtual RowSource* rows() { return nullptr; }
  // Brings all rows of all tables up to date.
  virtual void refresh() {}

  // This worker has no more steps. Waits until the others have none either; the step they came to.
  virtual std::int64_t awaitOthers(std::int64_t step) { return step; }
  // What servers say became of the gradients.
  virtual std::optional<ps::Statistics> statistics() { return std::nullopt; }
  // The training is over: servers, which end when every worker has left, may go.
  virtual void leave() {}
};

// What an exchange is made of. Every worker has the same values in all tensors.
struct ExchangeSetup {
  std::vector<Parameter> parameters;   // That need gradients, in the model's order.
  std::vector<std::string> rowSparse;  // Names of those whose gradients have few rows,
  std::vector<std::string> travelDense =
      {};  // and of those of them that travel whole all the same.
  std::vector<Parameter> buffers;
  std::size_t numbers = 0;  // Summed in float64 beside them: loss, metrics.
  Optimizer optimizer;
  double clipNorm = 0;  // 0: no clipping.
  // Gradients are averaged over slices, each backward() is one, and nobody calls begin and end.
  bool oneSlicePerBackward = false;

  std::optional<ps::PolicyOptions> policy = {};  // Of the servers, where the strategy has them.
  StrategyOptions options = {};
  bool chooseRoutes = false;  // hybrid: tables may go by allreduce (train/exchange/table_routes.h).
  TrainMetrics* metrics = nullptr;  // What counts bytes and seconds of the exchange; may be null.
  // Rows of each table that this worker's first batch reads, for what depends on that.
  std::function<std::vector<std::vector<std::int64_t>>(std::span<const Parameter> tables)> look =
      {};
};

// `policy`: of the servers, for a strategy that has them.
StepRules stepRulesOf(Strategy strategy, const std::optional<ps::PolicyOptions>& policy);

// Throws colla::Error with kInvalidArgument or kUnsupported for a model or an optimizer that the
// strategy can't train.
std::unique_ptr<Exchange> makeExchange(Strategy strategy, const Workers& workers,
                                       const ExchangeSetup& setup);

}  // namespace colla::train
