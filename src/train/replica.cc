#include "train/replica.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>

#include "colla/error.h"
#include "colla/random.h"
#include "train/slice_random.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

// Of SliceMetrics: what the model's own metrics come behind.
enum Number : std::size_t { kSamples, kLoss, kStop, kFirstMetric };

// The graph of one slice under bfloat16, if wanted.
class Autocast {
 public:
  explicit Autocast(bool on) : on_(on) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const bool on_;
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

// A step frees all that it took, and the next one takes it again: glibc would give it back to the
// kernel in between, and every page of it would cost a fault in every step.
void keepFreedMemory() {
#ifdef __GLIBC__
  constexpr int kMost = std::numeric_limits<int>::max();
  mallopt(M_TRIM_THRESHOLD, kMost);
  mallopt(M_MMAP_THRESHOLD, kMost);
#endif
}

}  // namespace

Replica::Replica(Job& job, const SliceMap& map, const MakeModel& make, const Optimizer& optimizer,
                 const ReplicaOptions& options)
    : job_(job), map_(map), options_(options) {
  keepFreedMemory();
  at::set_num_threads(job.threads());
  {
    // Replicas in threads make their models one after another: the generator is the process's.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    torch::manual_seed(options.seed);
    model_ = make();
  }
  std::vector<Reducer::Entry> entries;
  const std::vector<std::string> rowSparse = model_->rowSparse();
  for (const auto& item : model_->module().named_parameters()) {
    if (!item.value().requires_grad()) {
      frozen_.push_back({item.key(), item.value()});
      continue;
    }
    parameters_.push_back({item.key(), item.value()});
    const bool rows = std::ranges::find(rowSparse, item.key()) != rowSparse.end();
    entries.push_back({item.key(), item.value(), true, rows});
  }
  if (parameters_.empty()) {
    throw Error(StatusCode::kInvalidArgument, "the model has no parameter to train");
  }
  for (const auto& item : model_->module().named_buffers()) {
    const bool floating = item.value().is_floating_point();
    bufferEntries_.push_back(floating ? static_cast<int>(entries.size()) : -1);
    buffers_.push_back({item.key(), item.value()});
    if (floating) entries.push_back({item.key(), item.value(), false});
  }
  broadcastTensors(job.world(), parameters_);
  broadcastTensors(job.world(), frozen_);
  broadcastTensors(job.world(), buffers_);
  for (const Parameter& buffer : buffers_) before_.push_back(buffer.tensor.detach().clone());
  reducer_ = std::make_unique<Reducer>(job, map_, std::move(entries), Reducer::Options());
  updater_ = makeUpdater(optimizer, parameters_);
  numbers_.resize(kFirstMetric + model_->metrics().size());
  metrics_ = std::make_unique<SliceMetrics>(job, map_, numbers_.size());
  gradients_.resize(parameters_.size());
}

// One slice, forward and (unless evaluating) backward; fills numbers_.
void Replica::runSlice(int slice, std::uint64_t stream, const Batch& batch,
                       std::optional<double> weight) {
  const SliceRandom random(streamSeed(options_.seed, stream, static_cast<std::uint64_t>(slice)));
  Output output;
  {
    const Autocast autocast(options_.bfloat16);
    output = model_->compute(asTensors(batch));
  }
  if (output.loss.numel() != 1 || output.metrics.size() + kFirstMetric != numbers_.size()) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("the model's compute() must give a loss of one number and {} metrics",
                            numbers_.size() - kFirstMetric));
  }
  // Backward starts from the weight, which multiplies the loss by it.
  if (weight) output.loss.backward(torch::full_like(output.loss, *weight));

  const auto samples = static_cast<double>(samplesOf(batch));
  numbers_[kSamples] = samples;
  numbers_[kLoss] = output.loss.item<double>() * samples;
  for (std::size_t i = 0; i < output.metrics.size(); ++i) {
    numbers_[kFirstMetric + i] = output.metrics[i] * samples;
  }
}

Outcome Replica::step(std::int64_t step, std::int64_t samples, const NextBatch& next, double factor,
                      bool stop) {
  if (!model_->module().is_training()) model_->module().train();
  rememberBuffers();
  const SliceRange range = map_.range(job_.rank());
  for (int slice = range.begin; slice < range.end; ++slice) {
    const Batch batch = next();
    std::ranges::fill(numbers_, 0.0);
    reducer_->beginSlice(slice);
    if (samplesOf(batch) > 0) {
      const double weight = static_cast<double>(samplesOf(batch)) / static_cast<double>(samples);
      if (slice != range.begin) restoreBuffers();
      runSlice(slice, static_cast<std::uint64_t>(step), batch, weight);
      addBuffers(weight);
    }
    reducer_->endSlice();
    numbers_[kStop] = stop ? 1 : 0;
    metrics_->add(slice, numbers_);
  }
  // Before the gradients: workers that have just met exchange them without waiting again.
  Outcome outcome = reduceMetrics();
  reducer_->finish();
  finishBuffers();
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    gradients_[i] = reducer_->sum(static_cast<int>(i));
  }
  updater_->apply(gradients_, factor, clipFactorOf(gradients_, options_.clipNorm));
  return outcome;
}

Outcome Replica::evaluate(const NextBatch& next) {
  const torch::NoGradGuard noGrad;
  if (model_->module().is_training()) model_->module().eval();
  constexpr std::uint64_t kEvaluation = ~std::uint64_t{0};  // No step has this number.
  const SliceRange range = map_.range(job_.rank());
  for (int slice = range.begin; slice < range.end; ++slice) {
    const Batch batch = next();
    std::ranges::fill(numbers_, 0.0);
    if (samplesOf(batch) > 0) runSlice(slice, kEvaluation, batch, {});
    metrics_->add(slice, numbers_);
  }
  return reduceMetrics();
}

Outcome Replica::reduceMetrics() {
  const std::span<const double> sums = valueOrThrow(metrics_->reduce());
  Outcome outcome{.samples = sums[kSamples], .loss = 0, .metrics = {}, .stop = sums[kStop] > 0};
  const double divisor = std::max(sums[kSamples], 1.0);
  outcome.loss = sums[kLoss] / divisor;
  for (const double sum : sums.subspan(kFirstMetric)) outcome.metrics.push_back(sum / divisor);
  return outcome;
}

Outcome Replica::shown(Outcome outcome) const {
  outcome.metrics = model_->shown(std::move(outcome.metrics));
  return outcome;
}

void Replica::rememberBuffers() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) before_[i].copy_(buffers_[i].tensor);
}

void Replica::restoreBuffers() {
  const torch::NoGradGuard noGrad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].tensor.copy_(before_[i]);
}

// A buffer that no slice changed keeps its bits: a weighted mean of equal values might not.
void Replica::addBuffers(double weight) {
  const torch::NoGradGuard noGrad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (bufferEntries_[i] < 0) continue;
    const torch::Tensor& tensor = buffers_[i].tensor;
    reducer_->add(bufferEntries_[i], tensor * weight, !sameBits(tensor, before_[i]));
  }
}

void Replica::finishBuffers() {
  const torch::NoGradGuard noGrad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const torch::Tensor& tensor = buffers_[i].tensor;
    if (bufferEntries_[i] >= 0) {
      const torch::Tensor& mean = reducer_->sum(bufferEntries_[i]);
      if (mean.defined()) tensor.copy_(mean);
    } else {
      throwIfError(broadcast(job_.world(), memoryOf(tensor, buffers_[i].name), 0));
    }
  }
}

std::string Replica::firstNotFinite() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!allFinite(gradients_[i]))
      return fmt::format("the gradient of \"{}\"", parameters_[i].name);
    if (!allFinite(parameters_[i].tensor)) return fmt::format("\"{}\"", parameters_[i].name);
  }
  for (const Parameter& buffer : buffers_) {
    if (!allFinite(buffer.tensor)) return fmt::format("\"{}\"", buffer.name);
  }
  return {};
}

void broadcastTensors(Group& group, std::span<const Parameter> tensors) {
  if (group.size() == 1) return;
  for (const Parameter& tensor : tensors) {
    throwIfError(broadcast(group, memoryOf(tensor.tensor, tensor.name), 0));
  }
}

}  // namespace colla::train
