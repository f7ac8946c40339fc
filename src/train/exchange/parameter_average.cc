#include "train/exchange/parameter_average.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "colla/error.h"
#include "train/exchange/tensor_views.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

// A tensor's rows with these numbers, as a sparse gradient has them.
torch::Tensor sparseRows(const torch::Tensor& rows, const torch::Tensor& values,
                         const torch::Tensor& like) {
  const torch::Tensor sparse =
      torch::_sparse_coo_tensor_unsafe(rows.unsqueeze(0), values, like.sizes());
  return sparse._coalesced_(true);
}

// What the outer optimizer's state of a parameter is called in a checkpoint.
std::string stateName(const Parameter& parameter) {
  return fmt::format("{}/{}", parameter.name, kOuterMomentum);
}

}  // namespace

ParameterAverage::ParameterAverage(const Workers& workers, std::vector<Parameter> parameters,
                                   std::span<const std::string> tables,
                                   std::vector<Parameter> buffers, const LocalSgdOptions& options,
                                   TrainMetrics* metrics)
    : workers_(workers), options_(options), buffers_(std::move(buffers)), metrics_(metrics) {
  for (Parameter& parameter : parameters) {
    Moved& moved = moved_.emplace_back();
    moved.table = std::ranges::find(tables, parameter.name) != tables.end();
    moved.common = parameter.tensor.detach().clone();
    if (options_.outerMomentum != 0) moved.momentum = torch::zeros_like(moved.common);
    moved.parameter = std::move(parameter);
  }
  for (const Parameter& buffer : buffers_) commonBuffers_.push_back(buffer.tensor.detach().clone());
  Reducer::Options reducing;
  reducing.hooks = false;
  reducing.metrics = metrics;
  reducer_.emplace(workers_, entries(), reducing);
}

void ParameterAverage::begin() {
  const torch::NoGradGuard noGrad;
  for (Moved& moved : moved_) {
    moved.common.copy_(moved.parameter.tensor);
    moved.rows.clear();
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) commonBuffers_[i].copy_(buffers_[i].tensor);
}

std::vector<Reducer::Entry> ParameterAverage::entries() const {
  std::vector<Reducer::Entry> entries;
  for (const Moved& moved : moved_) {
    const auto kind = moved.table ? Reducer::Kind::kGradient : Reducer::Kind::kSum;
    entries.push_back({moved.parameter.name, moved.common, kind, /*rowSparse=*/moved.table});
  }
  for (const Parameter& buffer : buffers_) entries.push_back(Reducer::entryOf(buffer));
  entries.push_back({"stop", torch::zeros({1}), Reducer::Kind::kSum});
  return entries;
}

void ParameterAverage::touch(int parameter, const torch::Tensor& rows) {
  moved_[parameter].rows.push_back(rows.clone());
}

// One slice's share of the way that this worker has gone; undefined for a table that it left alone.
torch::Tensor ParameterAverage::moveOf(const Moved& moved, double share) {
  const torch::Tensor now = moved.parameter.tensor.detach();
  if (!moved.table) return (now - moved.common) * share;
  if (moved.rows.empty()) return {};
  const torch::Tensor rows = std::get<0>(torch::_unique(torch::cat(moved.rows), /*sorted=*/true));
  return sparseRows(rows, (now.index_select(0, rows) - moved.common.index_select(0, rows)) * share,
                    now);
}

void ParameterAverage::addSlice(int slice, std::span<const torch::Tensor> moves, double share,
                                ps::Stop stop) {
  reducer_->beginSlice(slice);
  int entry = 0;
  for (std::size_t i = 0; i < moved_.size(); ++i, ++entry) {
    if (!moved_[i].table) {
      reducer_->add(entry, moves[i], /*changed=*/true);
    } else if (moves[i].defined()) {
      reducer_->take(entry, moves[i]);
    }
  }
  // A buffer that no worker has changed keeps its bits: a weighted mean of equal values might not.
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const torch::Tensor now = buffers_[i].tensor.detach();
    const bool changed = !torch::equal(bytesOf(now), bytesOf(commonBuffers_[i]));
    reducer_->add(entry++, now.is_floating_point() ? now * share : bytesOf(now), changed);
  }
  reducer_->add(entry, torch::full({1}, toNumber(stop)), /*changed=*/true);
  reducer_->endSlice();
}

// Nesterov's SGD as torch has it, along -mean, from where all were together last.
void ParameterAverage::moveAll(Moved& moved, const torch::Tensor& mean) const {
  torch::Tensor parameter = moved.parameter.tensor.detach();
  const torch::Tensor rows = mean.is_sparse() ? mean._indices().flatten() : torch::Tensor();
  const auto part = [&](const torch::Tensor& whole) {
    return rows.defined() ? whole.index_select(0, rows) : whole;
  };
  torch::Tensor gradient = -(mean.is_sparse() ? mean._values() : mean);
  if (moved.momentum.defined()) {
    const torch::Tensor momentum = part(moved.momentum) * options_.outerMomentum + gradient;
    gradient = gradient + momentum * options_.outerMomentum;
    if (rows.defined()) {
      moved.momentum.index_copy_(0, rows, momentum);
    } else {
      moved.momentum.copy_(momentum);
    }
  }
  const torch::Tensor next = part(moved.common) - gradient * options_.outerRate;
  for (torch::Tensor target : {parameter, moved.common}) {
    if (rows.defined()) {
      target.index_copy_(0, rows, next);
    } else {
      target.copy_(next);
    }
  }
}

ps::Stop ParameterAverage::average(double share, ps::Stop stop) {
  const torch::NoGradGuard noGrad;
  // No backward pass hides an average, although its buckets travel one after another.
  if (metrics_ != nullptr) metrics_->backwardEnded(std::chrono::steady_clock::now());
  std::vector<torch::Tensor> moves;
  for (const Moved& moved : moved_) moves.push_back(moveOf(moved, share));
  const SliceRange slices = workers_.slices();
  for (int slice = slices.begin; slice < slices.end; ++slice) addSlice(slice, moves, share, stop);
  reducer_->finish();
  int entry = 0;
  for (Moved& moved : moved_) {
    const torch::Tensor& mean = reducer_->sum(entry++);
    if (mean.defined()) moveAll(moved, mean);
    moved.rows.clear();
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const torch::Tensor& tensor = buffers_[i].tensor;
    const torch::Tensor& mean = reducer_->sum(entry++);
    if (mean.defined()) summable(tensor).copy_(mean);
    commonBuffers_[i].copy_(tensor);
  }
  return ps::strongestOf(reducer_->sum(entry).item<float>());
}

std::vector<torch::Tensor> ParameterAverage::momenta() const {
  std::vector<torch::Tensor> momenta;
  for (const Moved& moved : moved_) momenta.push_back(moved.momentum);
  return momenta;
}

std::vector<torch::Tensor> ParameterAverage::start() const {
  std::vector<torch::Tensor> start;
  for (const Moved& moved : moved_) start.push_back(moved.common);
  return start;
}

std::vector<checkpoint::TensorView> ParameterAverage::state() const {
  std::vector<Parameter> momenta;
  for (const Moved& moved : moved_) {
    if (!moved.momentum.defined()) continue;
    momenta.push_back({stateName(moved.parameter), moved.momentum});
  }
  std::vector<checkpoint::TensorView> views;
  appendViews(views, momenta);
  return views;
}

std::vector<checkpoint::TensorView> ParameterAverage::restore(
    std::span<const checkpoint::TensorView> saved) {
  std::vector<checkpoint::TensorView> rest;
  for (const checkpoint::TensorView& view : saved) {
    if (!view.name.ends_with(fmt::format("/{}", kOuterMomentum))) {
      rest.push_back(view);
      continue;
    }
    for (Moved& moved : moved_) {
      if (stateName(moved.parameter) != view.name || !moved.momentum.defined()) continue;
      const Buffer memory = memoryOf(moved.momentum, view.name);
      if (memory.bytes().size() != view.bytes.size()) {
        throw Error(StatusCode::kMismatch,
                    fmt::format("{} of the checkpoint has {} bytes, not {}", view.name,
                                view.bytes.size(), memory.bytes().size()));
      }
      std::memcpy(memory.data(), view.bytes.data(), view.bytes.size());
    }
  }
  return rest;
}

}  // namespace colla::train
