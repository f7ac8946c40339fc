// The strategies whose workers sum gradients among themselves and update parameters themselves:
// single (nobody to sum with), mirrored (threads) and allreduce (processes).
//
// New buffers are the canonical mean over the slices, weighted by samples as the gradients are;
// buffers that are not floating point (num_batches_tracked) are slice 0's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "train/exchange/exchange.h"
#include "train/exchange/reducer.h"
#include "train/exchange/updater.h"

namespace colla::train {

class AllreduceExchange : public Exchange {
 public:
  AllreduceExchange(const Workers& workers, const ExchangeSetup& setup);

  void beginStep(ps::Stop stop) override { stop_ = stop; }
  void beginSlice(int slice) override { reducer_.beginSlice(slice); }
  void addBuffer(int buffer, const torch::Tensor& value, bool changed) override;
  void addNumbers(std::span<const double> numbers) override;
  void endSlice() override { reducer_.endSlice(); }
  int missingSlices() const override { return reducer_.missingSlices(); }
  StepResult finish(const StepEnd& end) override;

  void start(std::int64_t step, const SavedState& saved) override;
  ExchangeState state(std::int64_t step, const Refusal& refusal) override;
  NamedTensors leaveEpoch() override { return tensorsOf(updater_->state()); }
  void enterEpoch(std::int64_t step, std::span<const checkpoint::TensorView> state) override {
    start(step, state);
  }
  std::span<const Parameter> updated() const override { return parameters_; }

  // The two halves of finish(), for strategies that do something in between: the sums, then the
  // update with gradients multiplied by `scale`.
  StepResult finishSums(const StepEnd& end);
  std::span<const torch::Tensor> sums() const { return sums_; }
  void update(double factor, double scale);

 private:
  void finishBuffers();

  const Workers workers_;
  const std::vector<Parameter> parameters_;
  const std::vector<Parameter> buffers_;
  const double clipNorm_;
  TrainMetrics* const metrics_;
  // Entries of the reducer: parameters, buffers, then (if there are any) the numbers.
  const int firstBuffer_;
  const int numbersEntry_;
  std::vector<double> numbers_;  // Of one slice, and behind them the reason to stop.
  Reducer reducer_;
  std::unique_ptr<Updater> updater_;
  std::vector<torch::Tensor> sums_;  // Of the gradients.
  ps::Stop stop_ = ps::Stop::kNo;
};

std::unique_ptr<Exchange> makeAllreduce(const Workers& workers, const ExchangeSetup& setup);

}  // namespace colla::train
