// Between two averages a worker is an allreduce of one: its slices' gradients are summed, and it
// updates its own parameters. Its optimizer's state (Adam's moments) stays its own and is never
// averaged. A checkpoint holds worker 0's, which a resumed run gives to every worker.
#include "train/exchange/local_sgd.h"

#include "colla/error.h"
#include "train/exchange/allreduce.h"
#include "train/exchange/parameter_average.h"
#include "train/shared_views.h"

namespace colla::train {
namespace {

std::unique_ptr<Group> groupOfOne(const Workers& workers) {
  const int self = workers.rank();
  return valueOrThrow(workers.group.subgroup(std::span(&self, 1)));
}

class LocalSgdExchange final : public Exchange {
 public:
  LocalSgdExchange(const Workers& workers, const ExchangeSetup& setup)
      : workers_(workers),
        every_(setup.local.every),
        myself_(groupOfOne(workers)),
        own_({workers.job, *myself_, valueOrThrow(SliceMap::even(workers.slices().size(), 1))},
             setup),
        average_(workers, setup.parameters, setup.rowSparse, setup.buffers, setup.local,
                 setup.metrics) {}

  void beginStep(bool stop) override {
    stop_ = stop;
    own_.beginStep(stop);
  }
  void beginSlice(int slice) override { own_.beginSlice(slice - workers_.slices().begin); }
  void take(int parameter, const torch::Tensor& gradient) override {
    own_.take(parameter, gradient);
  }
  void addBuffer(int buffer, const torch::Tensor& value, bool changed) override {
    own_.addBuffer(buffer, value, changed);
  }
  void addNumbers(std::span<const double> numbers) override { own_.addNumbers(numbers); }
  void endSlice() override { own_.endSlice(); }
  int missingSlices() const override { return own_.missingSlices(); }

  StepResult finish(const StepEnd& end) override {
    StepResult result = own_.finish(end);
    result.stop = false;  // All workers end at the same average.
    for (std::size_t i = 0; i < own_.sums().size(); ++i) {
      const torch::Tensor& gradient = own_.sums()[i];
      if (!gradient.defined() || !gradient.is_sparse()) continue;
      average_.touch(static_cast<int>(i), gradient._indices().flatten());
    }
    if (++steps_ < every_ && !end.last) return result;
    steps_ = 0;
    result.stop = average_.average(stop_);
    return result;
  }

  void start(std::int64_t step, const SavedState& saved) override {
    if (!saved) return own_.start(step, saved);
    const SharedViews shared(workers_.group, {saved->begin(), saved->end()});
    own_.start(step, average_.restore(shared.views()));
  }

  NamedTensors leaveEpoch() override {
    NamedTensors state = own_.leaveEpoch();
    for (auto& momentum : tensorsOf(average_.state())) state.push_back(std::move(momentum));
    return state;
  }
  void enterEpoch(std::int64_t step, std::span<const checkpoint::TensorView> state) override {
    start(step, state);
  }

  ExchangeState state(std::int64_t step, const Refusal& refusal) override {
    ExchangeState state = own_.state(step, refusal);
    for (checkpoint::TensorView& view : average_.state()) state.optimizer.push_back(view);
    return state;
  }

  std::span<const Parameter> updated() const override { return own_.updated(); }
  bool settled() const override { return steps_ == 0; }

 private:
  const Workers workers_;
  const std::int64_t every_;
  const std::unique_ptr<Group> myself_;
  AllreduceExchange own_;
  ParameterAverage average_;
  std::int64_t steps_ = 0;  // Since the last average.
  bool stop_ = false;
};

}  // namespace

std::unique_ptr<Exchange> makeLocalSgd(const Workers& workers, const ExchangeSetup& setup) {
  return std::make_unique<LocalSgdExchange>(workers, setup);
}

}  // namespace colla::train
