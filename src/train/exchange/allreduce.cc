#include "train/exchange/allreduce.h"

#include <algorithm>

#include "base/check.h"
#include "colla/error.h"
#include "train/exchange/tensor_views.h"
#include "train/shared_views.h"

namespace colla::train {
namespace {

// For fewer parameters, one more meeting costs more than half of an update.
bool worthSharing(std::span<const Parameter> parameters) {
  constexpr std::size_t kLeastBytes = std::size_t{4} << 20;
  std::size_t bytes = 0;
  for (const Parameter& parameter : parameters) bytes += parameter.tensor.nbytes();
  return bytes >= kLeastBytes;
}

std::vector<Reducer::Entry> entriesOf(const ExchangeSetup& setup) {
  std::vector<Reducer::Entry> entries;
  for (const auto& [name, tensor, optimizer] : setup.parameters) {
    const bool sparse = std::ranges::find(setup.rowSparse, name) != setup.rowSparse.end();
    const bool dense = std::ranges::find(setup.travelDense, name) != setup.travelDense.end();
    entries.push_back({name, tensor, Reducer::Kind::kGradient, sparse, sparse && dense});
  }
  for (const Parameter& buffer : setup.buffers) entries.push_back(Reducer::entryOf(buffer));
  if (setup.numbers > 0) {
    const auto count = static_cast<std::int64_t>(setup.numbers + 1);
    entries.push_back({"numbers", torch::zeros({count}, torch::kFloat64), Reducer::Kind::kSum});
  }
  return entries;
}

Reducer::Options reducerOptions(const ExchangeSetup& setup) {
  Reducer::Options options;
  if (setup.oneSlicePerBackward) options.op = ReduceOp::kAverage;
  options.oneSlicePerBackward = setup.oneSlicePerBackward;
  options.metrics = setup.metrics;
  return options;
}

}  // namespace

AllreduceExchange::AllreduceExchange(const Workers& workers, const ExchangeSetup& setup)
    : workers_(workers),
      parameters_(setup.parameters),
      buffers_(setup.buffers),
      clipNorm_(setup.clipNorm),
      metrics_(setup.metrics),
      firstBuffer_(static_cast<int>(setup.parameters.size())),
      numbersEntry_(firstBuffer_ + static_cast<int>(setup.buffers.size())),
      numbers_(setup.numbers > 0 ? setup.numbers + 1 : 0),
      reducer_(workers_, entriesOf(setup), reducerOptions(setup)),
      // A program that owns its loop may write to its parameters as it likes: they stay its own.
      updater_(makeUpdater(
          setup.optimizer, setup.parameters,
          !setup.oneSlicePerBackward && worthSharing(setup.parameters) ? &workers_ : nullptr)),
      sums_(setup.parameters.size()) {}

void AllreduceExchange::addBuffer(int buffer, const torch::Tensor& value, bool changed) {
  reducer_.add(firstBuffer_ + buffer, summable(value), changed);
}

void AllreduceExchange::addNumbers(std::span<const double> numbers) {
  COLLA_CHECK(numbers.size() + 1 == numbers_.size());
  std::ranges::copy(numbers, numbers_.begin());
  numbers_.back() = toNumber(stop_);
  reducer_.add(numbersEntry_,
               torch::from_blob(numbers_.data(), {static_cast<std::int64_t>(numbers_.size())},
                                torch::kFloat64),
               /*changed=*/true);
}

StepResult AllreduceExchange::finishSums(const StepEnd& end) {
  reducer_.finish();
  finishBuffers();
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] = reducer_.sum(static_cast<int>(i));
  StepResult result;
  result.trained = static_cast<double>(end.batch);
  if (numbers_.empty()) return result;
  const torch::Tensor& all = reducer_.sum(numbersEntry_);
  result.numbers.assign(all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel());
  result.stop = ps::strongestOf(result.numbers.back());
  result.numbers.pop_back();
  return result;
}

// A buffer that no slice changed has no sum and keeps its bits: a weighted mean of equal values
// might not.
void AllreduceExchange::finishBuffers() {
  const torch::NoGradGuard noGrad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const torch::Tensor& sum = reducer_.sum(firstBuffer_ + static_cast<int>(i));
    const torch::Tensor& tensor = buffers_[i].tensor;
    if (!sum.defined()) continue;
    summable(tensor).copy_(sum);
  }
}

void AllreduceExchange::update(double factor, double scale) {
  const torch::NoGradGuard noGrad;
  const TimePoint began = std::chrono::steady_clock::now();
  updater_->apply(sums_, factor, scale);
  if (metrics_ != nullptr) metrics_->updateTook(std::chrono::steady_clock::now() - began);
}

StepResult AllreduceExchange::finish(const StepEnd& end) {
  StepResult result = finishSums(end);
  update(end.factor * end.plateau, clipFactorOf(sums_, clipNorm_));
  return result;
}

void AllreduceExchange::start(std::int64_t /*step*/, const SavedState& saved) {
  if (!saved) return;
  const SharedViews shared(workers_.group, {saved->begin(), saved->end()});
  throwIfError(updater_->restore(shared.views()));
}

ExchangeState AllreduceExchange::state(std::int64_t step, const Refusal& /*refusal*/) {
  ExchangeState state;
  state.step = step;
  appendViews(state.parameters, parameters_);
  appendViews(state.buffers, buffers_);
  state.optimizer = updater_->state();
  return state;
}

std::unique_ptr<Exchange> makeAllreduce(const Workers& workers, const ExchangeSetup& setup) {
  return std::make_unique<AllreduceExchange>(workers, setup);
}

}  // namespace colla::train
