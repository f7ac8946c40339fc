#include "train/replica.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "colla/random.h"
#include "train/partition_search.h"
#include "train/run_plan.h"
#include "train/slice_random.h"
#include "train/tensors.h"
#include "train/touched_rows.h"

namespace colla::train {
namespace {

// Of SliceMetrics: what the model's own metrics come behind.
enum Number : std::size_t { kSamples, kLoss, kStop, kFirstMetric };

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

// For fewer parameters, one more meeting costs more than half of an update.
bool worthSharing(std::span<const Parameter> parameters) {
  constexpr std::size_t kLeastBytes = std::size_t{4} << 20;
  std::size_t bytes = 0;
  for (const Parameter& parameter : parameters) bytes += parameter.tensor.nbytes();
  return bytes >= kLeastBytes;
}

bool allFinite(const torch::Tensor& tensor) {
  return !tensor.defined() || !tensor.is_floating_point() ||
         torch::isfinite(tensor.is_sparse() ? tensor._values() : tensor).all().item<bool>();
}

}  // namespace

Replica::Replica(Job& job, const SliceMap& map, const MakeModel& make, const Optimizer& optimizer,
                 const ReplicaOptions& options)
    : job_(job), map_(map), options_(options) {
  at::set_num_threads(job.threads());
  {
    // Replicas in threads make their models one after another: the generator is the process's.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    torch::manual_seed(options.seed);
    model_ = make();
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
  }
  broadcastModel();
  for (const Parameter& buffer : buffers_) before_.push_back(buffer.tensor.detach().clone());
  numbers_.resize(kFirstMetric + model_->metrics().size());
  metrics_ = std::make_unique<SliceMetrics>(job, map_, numbers_.size());
  gradients_.resize(parameters_.size());
  makeExchange(optimizer);
}

// What the slices of a batch read of each table, by a forward that leaves nothing behind.
std::vector<std::vector<std::int64_t>> Replica::touchedRows(std::span<const Parameter> tables) {
  const torch::NoGradGuard noGrad;
  if (!model_->module().is_training()) model_->module().train();
  rememberBuffers();
  TouchedRows touched(tables);
  source_ = &touched;
  const SliceRange range = map_.range(job_.rank());
  for (int slice = range.begin; slice < range.end; ++slice) {
    const Batch batch = options_.next();
    if (samplesOf(batch) == 0) continue;
    runSlice(slice, static_cast<std::uint64_t>(options_.look), batch, {});
    restoreBuffers();
  }
  source_ = nullptr;
  std::vector<std::vector<std::int64_t>> rows;
  for (std::size_t table = 0; table < tables.size(); ++table) rows.push_back(touched.rows(table));
  return rows;
}

// Numbers of the busiest worker, so all choose the same.
std::vector<TableRoute> Replica::chooseRoutes(std::span<const Parameter> tables,
                                              std::span<const std::vector<std::int64_t>> touched) {
  std::vector<std::int64_t> most;
  for (const auto& rows : touched) most.push_back(static_cast<std::int64_t>(rows.size()));
  throwIfError(allreduce(job_.world(), most, {.op = ReduceOp::kMax}));
  std::vector<TableRoute> routes;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const torch::Tensor& tensor = tables[i].tensor;
    const std::int64_t rows = std::max<std::int64_t>(1, tensor.size(0));
    const auto width = static_cast<std::size_t>(tensor.numel() / rows);
    const RouteChoice choice = chooseRoute({rows, width, most[i]}, job_.size(), job_.servers());
    routes.push_back(choice.route);
    if (job_.rank() != 0) continue;
    log::info("table \"{}\": {}; {}", tables[i].name, toString(choice.route), choice.reason);
  }
  if (job_.rank() == 0 && std::ranges::find(routes, TableRoute::kServers) == routes.end()) {
    log::info("no table is left for the servers: --strategy allreduce does the same without them");
  }
  return routes;
}

int Replica::findPartitions(std::span<const Parameter> tables,
                            std::span<const std::vector<std::int64_t>> touched) {
  std::vector<TrialTable> trial;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    trial.push_back({tables[i].name, tables[i].tensor.sizes().vec(), touched[i]});
  }
  if (trial.empty()) return 0;
  const PartitionChoice choice = valueOrThrow(searchPartitions(job_, map_, trial));
  if (job_.rank() == 0) {
    log::info(
        "{} partitions of each table: pulls and pushes of the first batch's rows took, by "
        "partitions, {}",
        choice.partitions, choice.reason);
  }
  return choice.partitions;
}

// What goes to servers, and what is left to allreduce.
void Replica::makeExchange(const Optimizer& optimizer) {
  const std::vector<std::string> sparse =
      options_.sparseAsDense ? std::vector<std::string>() : model_->rowSparse();
  const bool everything = options_.policy && !options_.tablesAlone;
  std::vector<Parameter> tables;
  for (const Parameter& parameter : parameters_) {
    const bool rows = std::ranges::find(sparse, parameter.name) != sparse.end();
    if (rows) tables.push_back(parameter);
  }
  if (options_.policy && options_.tablesAlone && tables.empty()) {
    throw Error(StatusCode::kInvalidArgument,
                "the model has no table with sparse gradients for hybrid's servers: use "
                "--strategy allreduce");
  }
  const bool search = options_.policy && options_.partitions == kAutoPartitions;
  std::vector<std::vector<std::int64_t>> touched(tables.size());
  if (search || options_.chooseRoutes) touched = touchedRows(tables);
  std::vector<TableRoute> routes(tables.size(),
                                 options_.policy ? TableRoute::kServers : TableRoute::kRows);
  if (options_.chooseRoutes) routes = chooseRoutes(tables, touched);
  std::vector<std::vector<std::int64_t>> servedRows;
  std::vector<Reducer::Entry> entries;
  Servers::Tensors served;
  std::vector<int> tableOrders;
  for (int i = 0; i < static_cast<int>(parameters_.size()); ++i) {
    const Parameter& parameter = parameters_[i];
    const auto table = std::ranges::find(tables, parameter.name, &Parameter::name);
    const bool rows = table != tables.end();
    const auto number = static_cast<std::size_t>(table - tables.begin());
    if (rows && routes[number] == TableRoute::kServers) {
      served.tables.push_back(parameter);
      servedRows.push_back(touched[number]);
      tableOrders.push_back(i);
    } else if (everything) {
      served.parameters.push_back(parameter);
      served.orders.push_back(i);
    } else {
      const bool whole = rows && routes[number] == TableRoute::kWhole;
      entries.push_back({parameter.name, parameter.tensor, true, rows, whole});
      updated_.push_back(parameter);
      reduced_.push_back(i);
    }
  }
  served.orders.insert(served.orders.end(), tableOrders.begin(), tableOrders.end());
  if (options_.policy) {
    const auto* const known = std::get_if<OptimizerOptions>(&optimizer);
    if (known == nullptr) {
      throw Error(StatusCode::kUnsupported,
                  "servers run Colla's optimizers, but the program chose a torch::optim class: use "
                  "--optimizer, or another strategy");
    }
    if (everything) {
      served.buffers = buffers_;
      served.numbers = numbers_.size();
    }
    const int partitions = search ? findPartitions(served.tables, servedRows) : options_.partitions;
    servers_ = std::make_unique<Servers>(
        job_, map_, std::move(served),
        ServerPlan{*known, options_.clipNorm, *options_.policy, partitions});
    source_ = servers_.get();
  }
  if (everything) return;
  for (const Parameter& buffer : buffers_) {
    const bool floating = buffer.tensor.is_floating_point();
    bufferEntries_.push_back(floating ? static_cast<int>(entries.size()) : -1);
    if (floating) entries.push_back({buffer.name, buffer.tensor, false});
  }
  reducer_ = std::make_unique<Reducer>(job_, map_, std::move(entries), Reducer::Options());
  updater_ = makeUpdater(optimizer, updated_, worthSharing(updated_) ? &job_ : nullptr);
}

void Replica::broadcastModel() {
  const bool common = updater_ && updater_->common();
  std::vector<Parameter> own;
  for (int i = 0; i < static_cast<int>(parameters_.size()); ++i) {
    const bool ours = common && std::ranges::find(reduced_, i) != reduced_.end();
    if (!ours) own.push_back(parameters_[i]);
  }
  broadcastTensors(job_.world(), own);
  broadcastTensors(job_.world(), frozen_);
  broadcastTensors(job_.world(), buffers_);
  if (common) throwIfError(barrier(job_.world()));  // What rank 0 has written is there.
}

void Replica::start(std::int64_t step, std::span<const checkpoint::TensorView> optimizer) {
  for (const Parameter& buffer : buffers_) finite_.push_back(allFinite(buffer.tensor));
  if (servers_) servers_->start(step, optimizer);
}

// One slice, forward and (unless evaluating) backward; fills numbers_.
void Replica::runSlice(int slice, std::uint64_t stream, const Batch& batch,
                       std::optional<double> weight) {
  const SliceRandom random(streamSeed(options_.seed, stream, static_cast<std::uint64_t>(slice)));
  const RowLookup lookup(source_);
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
  rememberVersions();
  const SliceRange range = map_.range(job_.rank());
  double share = 0;
  own_.assign(numbers_.size(), 0.0);
  for (int slice = range.begin; slice < range.end; ++slice) {
    const Batch batch = next();
    std::ranges::fill(numbers_, 0.0);
    if (reducer_) reducer_->beginSlice(slice);
    if (servers_) servers_->beginSlice(slice);
    if (samplesOf(batch) > 0) {
      const double weight = static_cast<double>(samplesOf(batch)) / static_cast<double>(samples);
      share += weight;
      if (slice != range.begin) restoreBuffers();
      runSlice(slice, static_cast<std::uint64_t>(step), batch, weight);
      addBuffers(weight);
    }
    if (slice == 0) keepFirst();
    numbers_[kStop] = stop ? 1 : 0;
    if (reducer_) {
      reducer_->endSlice();
      metrics_->add(slice, numbers_);
    } else {
      servers_->addNumbers(numbers_);
      for (std::size_t i = 0; i < own_.size(); ++i) own_[i] += numbers_[i];
    }
    if (servers_) servers_->endSlice();
  }
  if (!reducer_) {
    // Who waits for everybody waits for those without samples too.
    const bool empty = share == 0 && !options_.policy->together();
    return finishOnServers({.share = share,
                            .samples = static_cast<std::int64_t>(own_[kSamples]),
                            .factor = factor,
                            .empty = empty,
                            .stop = stop});
  }
  checkUntouched();
  // Before the gradients: workers that have just met exchange them without waiting again.
  Outcome outcome = reduceMetrics();
  reducer_->finish();
  finishBuffers();
  update(factor, share, stop);
  return outcome;
}

// What allreduce has summed. Tables on servers are updated there; clipping needs both.
void Replica::update(double factor, double share, bool stop) {
  std::vector<torch::Tensor> sums;
  for (std::size_t i = 0; i < reduced_.size(); ++i) {
    sums.push_back(gradients_[reduced_[i]] = reducer_->sum(static_cast<int>(i)));
  }
  double scale = 1;
  if (servers_) {
    ps::Finish finish{.share = share, .factor = factor, .stop = stop};
    for (std::size_t i = 0; i < sums.size() && options_.clipNorm > 0; ++i) {
      if (sums[i].defined()) finish.squares.emplace_back(reduced_[i], squaresOf(sums[i]));
    }
    scale = servers_->finish(std::move(finish)).turn.scale;
  } else {
    scale = clipFactorOf(sums, options_.clipNorm);
  }
  updater_->apply(sums, factor, scale);
}

Outcome Replica::finishOnServers(ps::Finish finish) {
  const bool empty = finish.empty;
  const Servers::End end = servers_->finish(std::move(finish));
  // The servers' are of the last update, which need not be this worker's.
  Outcome outcome = outcomeOf(options_.policy->together() ? end.numbers : own_);
  if (!empty) {
    outcome.trained =
        static_cast<double>(end.turn.samples - std::exchange(trained_, end.turn.samples));
  }
  outcome.stop = end.turn.stop;
  outcome.step = end.turn.step;
  outcome.dropped = end.turn.dropped;
  return outcome;
}

Outcome Replica::emptyStep(double factor, bool stop) {
  own_.assign(numbers_.size(), 0.0);
  return finishOnServers({.share = 0, .factor = factor, .empty = true, .stop = stop});
}

Outcome Replica::evaluate(const NextBatch& next, bool alone) {
  const torch::NoGradGuard noGrad;
  if (model_->module().is_training()) model_->module().eval();
  constexpr std::uint64_t kEvaluation = ~std::uint64_t{0};  // No step has this number.
  const SliceRange range = alone ? SliceRange{0, map_.slices()} : map_.range(job_.rank());
  std::optional<SliceMetrics> own;
  if (alone) own.emplace(map_.slices(), numbers_.size());
  SliceMetrics& metrics = own ? *own : *metrics_;
  for (int slice = range.begin; slice < range.end; ++slice) {
    const Batch batch = next();
    std::ranges::fill(numbers_, 0.0);
    if (samplesOf(batch) > 0) runSlice(slice, kEvaluation, batch, {});
    metrics.add(slice, numbers_);
  }
  return outcomeOf(valueOrThrow(metrics.reduce()));
}

Outcome Replica::reduceMetrics() { return outcomeOf(valueOrThrow(metrics_->reduce())); }

Outcome Replica::outcomeOf(std::span<const double> sums) const {
  Outcome outcome;
  outcome.samples = outcome.trained = sums[kSamples];
  outcome.stop = sums[kStop] > 0;
  const double divisor = std::max(sums[kSamples], 1.0);
  outcome.loss = sums[kLoss] / divisor;
  for (const double sum : sums.subspan(kFirstMetric)) outcome.metrics.push_back(sum / divisor);
  return outcome;
}

Outcome Replica::shown(Outcome outcome) const {
  if (outcome.metrics.empty()) return outcome;  // Of no step.
  outcome.metrics = model_->shown(std::move(outcome.metrics));
  return outcome;
}

void Replica::rememberVersions() {
  versions_.clear();
  for (const Parameter& parameter : updated_) versions_.push_back(parameter.tensor._version());
}

// A slice that changes parameters changes them for those that come after it on the same worker, or
// have them in common, and for no others.
void Replica::checkUntouched() const {
  if (map_.slices() == 1) return;
  for (std::size_t i = 0; i < updated_.size(); ++i) {
    if (updated_[i].tensor._version() == versions_[i]) continue;
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("the model writes to its parameter \"{}\" while it computes, which "
                            "slices of one step must not: train with --slices 1, or without that "
                            "(an Embedding's max_norm does it)",
                            updated_[i].name));
  }
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
    const torch::Tensor& tensor = buffers_[i].tensor;
    const bool changed = !sameBits(tensor, before_[i]);
    const bool floating = tensor.is_floating_point();
    if (!reducer_) {
      servers_->addBuffer(static_cast<int>(i), floating ? tensor * weight : tensor, changed);
    } else if (floating) {
      reducer_->add(bufferEntries_[i], tensor * weight, changed);
    }
  }
}

void Replica::keepFirst() {
  first_.resize(buffers_.size());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const torch::Tensor& tensor = buffers_[i].tensor;
    if (!tensor.is_floating_point()) first_[i] = tensor.detach().clone();
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
      if (job_.rank() == 0) tensor.copy_(first_[i]);
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
  for (std::size_t i = 0; i < finite_.size(); ++i) {
    if (finite_[i] && !allFinite(buffers_[i].tensor)) {
      return fmt::format("\"{}\"", buffers_[i].name);
    }
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
