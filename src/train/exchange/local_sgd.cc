// Between two averages a worker is an allreduce of one: its slices' gradients are summed, and it
// updates its own parameters. Its optimizer's state (Adam's moments) stays its own and is never
// averaged. A checkpoint holds worker 0's, which a resumed run gives to every worker.
#include "train/exchange/local_sgd.h"

#include <utility>

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

// An optimizer that is not Colla's may move rows that have no gradient: then tables travel whole.
std::vector<std::string> tablesOf(const ExchangeSetup& setup) {
  if (!std::holds_alternative<OptimizerOptions>(setup.optimizer)) return {};
  return setup.rowSparse;
}

class LocalSgdExchange final : public Exchange {
 public:
  LocalSgdExchange(const Workers& workers, const ExchangeSetup& setup)
      : workers_(workers),
        every_(setup.options.localSgd.every),
        myself_(groupOfOne(workers)),
        own_({workers.job, *myself_, valueOrThrow(SliceMap::even(workers.slices().size(), 1))},
             setupOfOne(setup)),
        average_(workers, setup.parameters, tablesOf(setup), setup.buffers, setup.options.localSgd,
                 setup.metrics) {}

  void beginStep(ps::Stop stop) override {
    stop_ = stop;
    own_.beginStep(stop);
  }
  void beginSlice(int slice) override { own_.beginSlice(slice - workers_.slices().begin); }
  void addBuffer(int buffer, const torch::Tensor& value, bool changed) override {
    own_.addBuffer(buffer, value, changed);
  }
  void addNumbers(std::span<const double> numbers) override { own_.addNumbers(numbers); }
  void endSlice() override { own_.endSlice(); }
  int missingSlices() const override { return own_.missingSlices(); }

  StepResult finish(const StepEnd& end) override {
    // A program may set its parameters until its first step, and has the same ones everywhere then.
    if (!std::exchange(begun_, true)) average_.begin();
    StepResult result = own_.finish(end);
    result.stop = ps::Stop::kNo;  // All workers end at the same average.
    for (std::size_t i = 0; i < own_.sums().size(); ++i) {
      const torch::Tensor& gradient = own_.sums()[i];
      if (!gradient.defined() || !gradient.is_sparse()) continue;
      average_.touch(static_cast<int>(i), gradient._indices().flatten());
    }
    samples_ += end.samples;
    allSamples_ += end.batch;
    ++steps_;
    if (steps_ >= every_ || end.last) result.stop = averageNow();
    return result;
  }

  void start(std::int64_t step, const SavedState& saved) override {
    if (!settled()) {
      throw Error(StatusCode::kInvalidArgument,
                  "workers have trained apart since their last average: average() comes first, on "
                  "every worker");
    }
    begun_ = false;
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
  void settle() override {
    if (steps_ > 0) averageNow();
  }

 private:
  // What a worker exchanges with itself is not an exchange to count.
  static ExchangeSetup setupOfOne(ExchangeSetup setup) {
    setup.metrics = nullptr;
    return setup;
  }

  // Workers weigh as much as their samples since the last average, as gradients do.
  ps::Stop averageNow() {
    const double share = allSamples_ > 0
                             ? static_cast<double>(samples_) / static_cast<double>(allSamples_) /
                                   workers_.slices().size()
                             : 1.0 / workers_.map.slices();
    steps_ = samples_ = allSamples_ = 0;
    return average_.average(share, stop_);
  }

  const Workers workers_;
  const std::int64_t every_;
  const std::unique_ptr<Group> myself_;
  AllreduceExchange own_;
  ParameterAverage average_;
  bool begun_ = false;  // average_ has seen the parameters that the first step begins with.
  // Since the last average: steps, and samples of this worker and of all.
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t allSamples_ = 0;
  ps::Stop stop_ = ps::Stop::kNo;
};

}  // namespace

std::unique_ptr<Exchange> makeLocalSgd(const Workers& workers, const ExchangeSetup& setup) {
  return std::make_unique<LocalSgdExchange>(workers, setup);
}

}  // namespace colla::train
