#include "train/replica.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/thread_annotations.h"
#include "colla/error.h"
#include "colla/random.h"
#include "train/slice_random.h"
#include "train/tensors.h"
#include "train/touched_rows.h"
#include "train/user_code.h"

namespace colla::train {
namespace {

// Of a slice's numbers: what the model's own metrics come behind.
enum Number : std::size_t { kSamples, kLoss, kFirstMetric };

// The graph of one slice under bfloat16, if wanted. libtorch keeps what it has cast in one place
// for the whole process, where replicas in threads would clear each other's: a layer used twice
// would have other bits. So nothing is kept.
class Autocast {
 public:
  explicit Autocast(bool on) : on_(on), cached_(at::autocast::is_autocast_cache_enabled()) {
    if (!on_) return;
    at::autocast::set_autocast_cache_enabled(false);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_cache_enabled(cached_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool on_;
  const bool cached_;
};

std::int64_t samplesOf(const Batch& batch) { return batch.empty() ? 0 : batch.front().rows(); }

// libtorch's own count of writes misses those of BatchNorm.
bool sameBits(const torch::Tensor& a, const torch::Tensor& b) {
  return std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

bool allFinite(const torch::Tensor& tensor) {
  return !tensor.defined() || !tensor.is_floating_point() ||
         torch::isfinite(tensor.is_sparse() ? tensor._values() : tensor).all().item<bool>();
}

// libtorch's generator is the process's: replicas in threads make their models one after another.
Mutex generatorMutex;

std::unique_ptr<Model> makeSeeded(const MakeModel& make, std::uint64_t seed)
    COLLA_EXCLUDES(generatorMutex) {
  const MutexLock lock(generatorMutex);
  torch::manual_seed(seed);
  return callUser([] { return "the task's model"; }, make);
}

}  // namespace

Replica::Replica(const MakeModel& make, const ReplicaOptions& options) : options_(options) {
  at::set_num_threads(options.threads);
  model_ = makeSeeded(make, options.seed);
  if (model_ == nullptr) {
    throw Error(StatusCode::kInvalidArgument,
                "the task's model gave a null pointer: return a colla::Model, such as "
                "colla::classifier(module) of a module that is not null");
  }
  for (const auto& item : model_->module().named_parameters()) {
    auto& part = item.value().requires_grad() ? parameters_ : frozen_;
    part.push_back({item.key(), item.value()});
  }
  if (parameters_.empty()) {
    throw Error(StatusCode::kInvalidArgument, "the model has no parameter to train");
  }
  for (const auto& item : model_->module().named_buffers()) {
    buffers_.push_back({item.key(), item.value()});
    buffersBefore_.push_back(item.value().detach().clone());
  }
  numbers_.resize(kFirstMetric + model_->metrics().size());
}

std::vector<std::vector<std::int64_t>> Replica::touchedRows(std::span<const Parameter> tables,
                                                            SliceRange slices, std::int64_t batch,
                                                            const NextBatch& next) {
  const torch::NoGradGuard noGrad;
  if (!model_->module().is_training()) model_->module().train();
  rememberBuffers();
  TouchedRows touched(tables);
  for (int slice = slices.begin; slice < slices.end; ++slice) {
    const Batch samples = next();
    if (samplesOf(samples) == 0) continue;
    runSlice({"step", batch + 1}, slice, static_cast<std::uint64_t>(batch), samples, {}, &touched);
    restoreBuffers();
  }
  std::vector<std::vector<std::int64_t>> rows;
  for (std::size_t table = 0; table < tables.size(); ++table) rows.push_back(touched.rows(table));
  return rows;
}

// Loss and metrics of a batch, as the model computes them.
Output Replica::compute(const Batch& batch) {
  const Autocast autocast(options_.bfloat16);
  Output output;
  try {
    output = model_->compute(asTensors(batch));
  } catch (const std::out_of_range& error) {  // batch.at(2), for one.
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("compute() asked for something out of range; its batch has {} field{} "
                            "({})",
                            batch.size(), batch.size() == 1 ? "" : "s", error.what()));
  }
  if (!output.loss.defined() || output.loss.numel() != 1 ||
      output.metrics.size() + kFirstMetric != numbers_.size()) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("compute() must give a loss of one number and {} metrics",
                            numbers_.size() - kFirstMetric));
  }
  return output;
}

// Forward and, with a `weight`, backward of one slice; fills numbers_.
void Replica::runSlice(Moment moment, int slice, std::uint64_t stream, const Batch& batch,
                       std::optional<double> weight, RowSource* rows) {
  const SliceRandom random(streamSeed(options_.seed, stream, static_cast<std::uint64_t>(slice)));
  const RowLookup lookup(rows);
  const auto where = [&] {
    return fmt::format("{} {}, slice {}: the model", moment.kind, moment.number, slice);
  };
  const TimePoint began = std::chrono::steady_clock::now();
  const Output output = callUser(where, [&] { return compute(batch); });
  // Backward starts from the weight, which multiplies the loss by it.
  if (weight) {
    const TimePoint computed = std::chrono::steady_clock::now();
    callUser(where, [&] { output.loss.backward(torch::full_like(output.loss, *weight)); });
    if (options_.metrics != nullptr) {
      options_.metrics->forwardTook(computed - began);
      options_.metrics->backwardTook(std::chrono::steady_clock::now() - computed);
    }
  }

  const auto samples = static_cast<double>(samplesOf(batch));
  numbers_[kSamples] = samples;
  numbers_[kLoss] = output.loss.item<double>() * samples;
  for (std::size_t i = 0; i < output.metrics.size(); ++i) {
    numbers_[kFirstMetric + i] = output.metrics[i] * samples;
  }
}

Outcome Replica::step(Exchange& exchange, SliceRange slices, const StepInput& input,
                      const NextBatch& next) {
  if (!model_->module().is_training()) model_->module().train();
  rememberBuffers();
  rememberVersions(exchange.updated());
  exchange.beginStep(input.stop);
  StepEnd end{.batch = input.allSamples,
              .factor = input.factor,
              .plateau = input.plateau,
              .saveAt = input.saveAt,
              .last = input.last};
  for (int slice = slices.begin; slice < slices.end; ++slice) {
    const Batch batch = next();
    std::ranges::fill(numbers_, 0.0);
    exchange.beginSlice(slice);
    if (samplesOf(batch) > 0) {
      const double weight =
          static_cast<double>(samplesOf(batch)) / static_cast<double>(input.samples);
      end.share += weight;
      end.samples += samplesOf(batch);
      if (slice != slices.begin) restoreBuffers();
      runSlice({"step", input.step}, slice, static_cast<std::uint64_t>(input.batch), batch, weight,
               exchange.rows());
      addBuffers(exchange, weight);
    }
    exchange.addNumbers(numbers_);
    exchange.endSlice();
  }
  if (input.allSlices > 1) checkUntouched(exchange.updated());
  // An optimizer may be the program's own.
  const StepResult result = callUser([&] { return fmt::format("step {}", input.step); },
                                     [&] { return exchange.finish(end); });
  Outcome outcome = outcomeOf(result.numbers);
  outcome.trained = result.trained;
  outcome.stop = result.stop;
  outcome.step = result.step;
  outcome.dropped = result.dropped;
  return outcome;
}

Outcome Replica::evaluate(std::int64_t number, SliceRange slices, SliceMetrics& metrics,
                          RowSource* rows, const NextBatch& next) {
  const torch::NoGradGuard noGrad;
  if (model_->module().is_training()) model_->module().eval();
  constexpr std::uint64_t kEvaluation = ~std::uint64_t{0};  // No step has this number.
  for (int slice = slices.begin; slice < slices.end; ++slice) {
    const Batch batch = next();
    std::ranges::fill(numbers_, 0.0);
    if (samplesOf(batch) > 0) {
      runSlice({"test batch", number}, slice, kEvaluation, batch, {}, rows);
    }
    metrics.add(slice, numbers_);
  }
  return outcomeOf(valueOrThrow(metrics.reduce()));
}

Outcome Replica::outcomeOf(std::span<const double> sums) const {
  Outcome outcome;
  outcome.samples = outcome.trained = sums[kSamples];
  const double divisor = std::max(sums[kSamples], 1.0);
  outcome.loss = sums[kLoss] / divisor;
  for (const double sum : sums.subspan(kFirstMetric)) outcome.metrics.push_back(sum / divisor);
  return outcome;
}

Outcome Replica::shown(Outcome outcome) const {
  if (outcome.metrics.empty()) return outcome;  // Of no step.
  const std::size_t count = outcome.metrics.size();
  outcome.metrics = callUser([] { return "the model's shown()"; },
                             [&] { return model_->shown(std::move(outcome.metrics)); });
  if (outcome.metrics.size() == count) return outcome;
  throw Error(StatusCode::kInvalidArgument,
              fmt::format("the model's shown() must give as many numbers as it gets: {}, not {}",
                          count, outcome.metrics.size()));
}

void Replica::rememberVersions(std::span<const Parameter> updated) {
  versions_.clear();
  for (const Parameter& parameter : updated) versions_.push_back(parameter.tensor._version());
}

// A slice that changes parameters changes them for the slices that come after it on the same
// worker, or on workers that have them in common, and for no others.
void Replica::checkUntouched(std::span<const Parameter> updated) const {
  for (std::size_t i = 0; i < updated.size(); ++i) {
    if (updated[i].tensor._version() == versions_[i]) continue;
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("the model writes to its parameter \"{}\" while it computes, which "
                            "slices of one step must not: train with --slices 1, or without that "
                            "(an Embedding's max_norm does it)",
                            updated[i].name));
  }
}

void Replica::rememberBuffers() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffersBefore_[i].copy_(buffers_[i].tensor);
}

void Replica::restoreBuffers() {
  const torch::NoGradGuard noGrad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].tensor.copy_(buffersBefore_[i]);
}

void Replica::addBuffers(Exchange& exchange, double weight) {
  const torch::NoGradGuard noGrad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const torch::Tensor& tensor = buffers_[i].tensor;
    const bool changed = !sameBits(tensor, buffersBefore_[i]);
    exchange.addBuffer(static_cast<int>(i), tensor.is_floating_point() ? tensor * weight : tensor,
                       changed);
  }
}

void Replica::ownTensors() {
  const torch::NoGradGuard noGrad;
  for (const auto* tensors : {&parameters_, &buffers_}) {
    for (const auto& [name, tensor, optimizer] : *tensors) {
      tensor.mutable_grad().reset();  // The sums' memory is the exchange's.
      torch::Tensor(tensor).set_data(tensor.detach().clone());
    }
  }
}

void Replica::watchBuffers() {
  for (const Parameter& buffer : buffers_) watched_.push_back(allFinite(buffer.tensor));
}

std::string Replica::firstNotFinite() const {
  for (const auto& [name, tensor, optimizer] : parameters_) {
    if (!allFinite(tensor.grad())) return fmt::format("the gradient of \"{}\"", name);
    if (!allFinite(tensor)) return fmt::format("\"{}\"", name);
  }
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    if (watched_[i] && !allFinite(buffers_[i].tensor)) {
      return fmt::format("\"{}\"", buffers_[i].name);
    }
  }
  return {};
}

}  // namespace colla::train
