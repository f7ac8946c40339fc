// A worker's end of the strategies with parameter servers: gradients go out while backward still
// runs, parameters come back into the model's own tensors.
//
// Dense parameters and buffers move into memory that the servers of this host write to; a table
// keeps its tensor, and the rows that a lookup needs are pulled before it (train/row_lookup.h).
// Sums are canonical and the optimizer is the same, so under a policy that waits for everybody
// the parameters have the bits of an allreduce.
//
// Not thread safe: one per worker. Errors are thrown as colla::Error.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/directory.h"
#include "colla/error.h"
#include "collective/partial_sums.h"
#include "ps/client.h"
#include "train/exchange/gradient_hooks.h"
#include "train/exchange/parameter.h"
#include "train/exchange/row_sums.h"
#include "train/exchange/workers.h"
#include "train/metrics.h"
#include "train/row_lookup.h"

namespace colla::train {

// What the servers of a job do.
struct ServerPlan {
  OptimizerOptions optimizer;  // Of parameters that have none of their own.
  double clipNorm = 0;
  ps::PolicyOptions policy;
  int partitions = 0;
  bool hooks = true;  // Take gradients the moment autograd has them; otherwise see give().
  // Each backward() is one slice, and its gradient counts as a share of the mean over all slices;
  // nobody calls beginSlice() and endSlice().
  bool oneSlicePerBackward = false;
  TrainMetrics* metrics = nullptr;  // What counts bytes and seconds of the exchange; may be null.
};

class ServerLink final : public RowSource {
 public:
  struct Tensors {
    std::vector<Parameter> parameters;  // Whole gradients.
    std::vector<Parameter> tables;      // Gradients of rows.
    std::vector<Parameter> buffers;
    std::size_t numbers = 0;  // Summed beside them, in float64: loss, metrics.
    // The place of each parameter among the model's, then of each table.
    std::vector<int> orders;
  };

  ServerLink(const Workers& workers, Tensors tensors, const ServerPlan& plan);
  ~ServerLink() override;

  // The first call of every worker: worker 0's tensors, and `optimizer` (of a checkpoint; empty: a
  // new one), become the servers'; the other workers get them from there.
  void start(std::int64_t step, std::span<const checkpoint::TensorView> optimizer);

  // Ends this worker's part in an epoch; the servers keep what they hold.
  void leaveEpoch() { throwIfError(client_->leaveEpoch()); }
  // Instead of start(), in the next epoch: the servers go on with what they have kept. Samples of
  // the gradients that they have taken so far.
  std::int64_t resume();

  // As train/exchange/reducer.h.
  void beginSlice(int slice);
  void endSlice();
  int missingSlices() const { return range_.end - next_; }
  // Without hooks: a gradient of the slice, by its parameter's place in Tensors (tables follow).
  void give(int number, const torch::Tensor& gradient);
  void addBuffer(int buffer, const torch::Tensor& value, bool changed);
  void addNumbers(std::span<const double> numbers);

  // What is pushed from here on keeps the step waiting. finish() says so itself; it is for those
  // who have something else to wait for in between.
  void backwardEnded();
  struct End {
    ps::Turn turn;
    std::span<const double> numbers;  // Sums over the workers that were taken.
  };
  // The step's last word; returns with the next parameters in place. An `empty` step has no slices.
  End finish(ps::Finish finish);

  // Before a lookup: makes these rows of a table as fresh as the parameters.
  void refresh(const torch::Tensor& table, const torch::Tensor& rows) override;
  // All rows of all tables.
  void refreshAll();

  // Whether `name` is state of an optimizer that the servers run.
  bool updates(const std::string& name) const;
  // Waits until every other worker has left; the step that the servers are at then.
  std::int64_t waitForOthers();

  // A consistent copy of what the servers hold, to be read while training goes on.
  struct Copy {
    std::vector<checkpoint::TensorView> parameters;  // And tables.
    std::vector<checkpoint::TensorView> buffers;
    std::vector<checkpoint::TensorView> optimizer;
    std::vector<std::vector<std::byte>> memory;
  };
  // Has the servers take one, unless they have that of step `held`; its step. For the recorder.
  std::int64_t takeSnapshot(std::int64_t held = -1);
  // Reads it. From any thread.
  Result<std::shared_ptr<const Copy>> readSnapshot();

  ps::Statistics statistics();
  // Leaves the servers, which end when every worker has left, or (`again`) wait for the workers'
  // next ServerLink.
  void leave(bool again = false);

 private:
  ps::Declaration declaration(const ServerPlan& plan) const;
  void moveIn(const torch::Tensor& tensor, int entry);
  void take(int entry, const torch::Tensor& gradient);
  void takeRows(int table, const torch::Tensor& gradient);
  void pushTable(int table);
  void add(int entry, const void* values);
  void addZeros(int entry);
  void keepFirst(int entry, const void* values);
  void hasValue(int entry);
  void countPush(std::size_t bytes);
  std::span<std::byte* const> buffersOf(int entry);
  int slotsOf(int entry) const { return static_cast<int>(client_->slotsOf(entry).size()); }
  std::string slotName(int entry, int slot) const;
  int firstTable() const { return static_cast<int>(tensors_.parameters.size()); }
  int firstBuffer() const { return firstTable() + static_cast<int>(tensors_.tables.size()); }
  int numbersEntry() const { return firstBuffer() + static_cast<int>(tensors_.buffers.size()); }

  const Workers workers_;
  const bool oneSlicePerBackward_;
  const SliceRange range_;
  const Tensors tensors_;
  std::unique_ptr<ps::Client> client_;
  std::optional<ps::Snapshots> snapshots_;  // The recorder's.
  const collective::PartialSums floats_;
  const collective::PartialSums doubles_;
  std::vector<ps::AlignedBytes> levels_;  // What partial sums are folded from.
  std::vector<std::byte*> pointers_;
  RowSums rows_;
  std::vector<std::vector<std::uint32_t>> fresh_;  // By table and row: the turn that it is of.
  std::uint32_t turn_ = 1;
  std::vector<std::uint8_t> present_;  // Of this step, by entry.
  std::vector<bool> seen_;             // Of this slice.
  std::vector<bool> pushed_;           // Of this step, by table.
  std::vector<int> missing_;           // By block: entries that the last slice has not given yet.
  std::vector<std::vector<int>> blocksOf_;
  std::optional<int> slice_;
  int next_ = 0;
  // Of this step: what was pushed since `pushing_` and is not counted yet; nothing: no push so far.
  TrainMetrics* const metrics_;
  std::size_t uncounted_ = 0;
  std::optional<TimePoint> pushing_;
  std::optional<GradientHooks> hooks_;
};

}  // namespace colla::train
