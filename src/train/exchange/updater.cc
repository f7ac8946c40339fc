#include "train/exchange/updater.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "checkpoint/restore.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "collective/reduction.h"
#include "optim/norm.h"
#include "optim/update_rule.h"
#include "train/exchange/common_tensors.h"
#include "train/tensors.h"
#include "train/torch_state.h"

namespace colla::train {
namespace {

// Colla's own kernels.
class RuleUpdater final : public Updater {
 public:
  // `common`: to allocate from and the workers of this host; both null: nothing is in common.
  RuleUpdater(const OptimizerOptions& options, std::vector<Parameter> parameters, Job* job,
              Group* common)
      : rule_(valueOrThrow(optim::UpdateRule::make(options))),
        parameters_(std::move(parameters)),
        common_(common) {
    std::size_t room = 0;
    for (const Parameter& parameter : parameters_) {
      const DataType type = memoryOf(parameter.tensor, parameter.name).type();
      if (type != DataType::kFloat32 && type != DataType::kFloat64) {
        throw Error(StatusCode::kUnsupported,
                    fmt::format("parameter \"{}\" is {}: Colla's optimizers take float32 and "
                                "float64; use a torch::optim class",
                                parameter.name, toString(type)));
      }
      room += CommonTensors::roomFor(parameter.tensor);
    }
    std::optional<CommonTensors> memory;
    if (common_ != nullptr) memory.emplace(*job, room * (1 + rule_.slots().size()));
    const collective::Range share =
        common_ == nullptr ? collective::Range{0, room}
                           : collective::chunkOf(room, common_->size(), common_->rank());
    std::size_t at = 0;
    for (const Parameter& parameter : parameters_) {
      State& state = states_.emplace_back();
      const torch::Tensor tensor = parameter.tensor.detach();
      if (memory) {
        const torch::Tensor ours = memory->make(tensor);
        if (fills()) ours.copy_(tensor);
        parameter.tensor.set_data(ours);
      }
      for (const optim::Slot& slot : rule_.slots()) {
        state.slots.push_back(memory ? memory->make(tensor) : torch::empty_like(tensor));
        if (fills()) state.slots.back().fill_(slot.initial);
      }
      state.part = partOf(tensor, share, at);
      at += CommonTensors::roomFor(tensor);
    }
    if (common_ == nullptr) return;
    malloc_trim(0);  // Where the parameters were.
    throwIfError(barrier(*common_));
  }

  void apply(std::span<const torch::Tensor> gradients, double factor, double scale) override {
    const double lr = learningRate(rule_.options()) * factor;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const optim::Update update{.step = ++states_[i].step, .lr = lr, .gradScale = scale};
      if (parameters_[i].tensor.scalar_type() == torch::kFloat32) {
        applyTo<float>(i, update, gradients[i]);
      } else {
        applyTo<double>(i, update, gradients[i]);
      }
    }
    if (common_ != nullptr) throwIfError(barrier(*common_));
  }

  std::vector<checkpoint::TensorView> state() override {
    std::vector<checkpoint::TensorView> views;
    forEach([&](const std::string& name, DataType type, checkpoint::Shape shape,
                std::span<std::byte> bytes) {
      views.push_back({name, type, std::move(shape), bytes});
    });
    return views;
  }

  Status restore(std::span<const checkpoint::TensorView> saved) override {
    std::vector<checkpoint::Target> targets;
    std::vector<std::vector<std::byte>> unused;  // What rank 0 fills for all is read, and left.
    forEach([&](const std::string& name, DataType type, checkpoint::Shape shape,
                std::span<std::byte> bytes) {
      const bool slot = type != DataType::kInt64;
      if (slot && !fills()) bytes = unused.emplace_back(bytes.size());
      targets.push_back({name, type, std::move(shape), bytes});
    });
    return checkpoint::restore(saved, targets);
  }

 private:
  struct State {
    std::int64_t step = 0;  // Updates that the parameter has had.
    std::vector<torch::Tensor> slots;
    collective::Range part;  // Those of its elements that this worker updates.
  };

  // What all have in common is rank 0's to fill.
  bool fills() const { return common_ == nullptr || common_->rank() == 0; }

  // Of a tensor that lies at byte `at`, the elements that lie in `share`.
  static collective::Range partOf(const torch::Tensor& tensor, collective::Range share,
                                  std::size_t at) {
    const auto within = [&](std::size_t byte) {
      return std::clamp(byte, at, at + tensor.nbytes()) - at;
    };
    const std::size_t size = tensor.element_size();
    return {within(share.begin) / size, within(share.end) / size};
  }

  template <typename T>
  static std::span<T> spanOf(const torch::Tensor& tensor) {
    return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
  }

  template <typename T>
  void applyTo(std::size_t i, const optim::Update& update, const torch::Tensor& gradient) {
    const torch::Tensor& parameter = parameters_[i].tensor;
    const State& state = states_[i];
    const bool rows = gradient.is_sparse();
    const auto part = [&](std::span<T> whole) {
      return rows ? whole : whole.subspan(state.part.begin, state.part.size());
    };
    std::array<std::span<T>, optim::kMaxSlots> slots;
    for (std::size_t slot = 0; slot < state.slots.size(); ++slot) {
      slots[slot] = part(spanOf<T>(state.slots[slot]));
    }
    const auto used = std::span(slots).first(state.slots.size());
    if (!rows) {
      rule_.apply<T>(update, part(spanOf<T>(parameter)), part(spanOf<T>(gradient)), used);
      return;
    }
    const auto width = static_cast<std::size_t>(parameter.numel() / parameter.size(0));
    const auto count = static_cast<std::size_t>(gradient._values().size(0));
    const auto [begin, end] = rowsOf(count);
    rule_.applyRows<T>(update, spanOf<T>(parameter), width,
                       spanOf<std::int64_t>(gradient._indices()).subspan(begin, end - begin),
                       spanOf<T>(gradient._values()).subspan(begin * width, (end - begin) * width),
                       used);
  }

  // This worker's of a gradient's `count` rows.
  std::pair<std::size_t, std::size_t> rowsOf(std::size_t count) const {
    if (common_ == nullptr) return {0, count};
    const auto rank = static_cast<std::size_t>(common_->rank());
    const auto workers = static_cast<std::size_t>(common_->size());
    return {count * rank / workers, count * (rank + 1) / workers};
  }

  template <typename Visit>
  void forEach(const Visit& visit) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string& name = parameters_[i].name;
      visit(name + "/step", DataType::kInt64, {},
            std::as_writable_bytes(std::span(&states_[i].step, 1)));
      for (std::size_t slot = 0; slot < states_[i].slots.size(); ++slot) {
        const torch::Tensor& tensor = states_[i].slots[slot];
        const Buffer memory = memoryOf(tensor, name);
        visit(fmt::format("{}/{}", name, rule_.slots()[slot].name), memory.type(),
              tensor.sizes().vec(), memory.bytes());
      }
    }
  }

  const optim::UpdateRule rule_;
  const std::vector<Parameter> parameters_;
  Group* const common_;  // The workers of this host, who have all of this in common; may be null.
  std::vector<State> states_;
};

// Any torch::optim class.
class TorchUpdater final : public Updater {
 public:
  TorchUpdater(const TorchOptimizer& optimizer, std::vector<Parameter> parameters)
      : parameters_(std::move(parameters)) {
    std::vector<torch::Tensor> tensors;
    for (const Parameter& parameter : parameters_) {
      tensors.push_back(parameter.tensor);
      names_.push_back(parameter.name);
    }
    optimizer_ = optimizer.make(std::move(tensors));
    if (dynamic_cast<const torch::optim::LBFGS*>(optimizer_.get()) != nullptr) {
      throw Error(StatusCode::kUnsupported,
                  "torch::optim::LBFGS computes the loss again in each step, by a closure, and "
                  "there is none here: choose another optimizer");
    }
    for (auto& group : optimizer_->param_groups()) rates_.push_back(group.options().get_lr());
  }

  void apply(std::span<const torch::Tensor> gradients, double factor, double scale) override {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      torch::Tensor gradient = gradients[i];
      if (gradient.defined() && scale != 1) gradient.mul_(scale);
      if (gradient.defined() && gradient.is_sparse()) gradient = gradient.to_dense();
      parameters_[i].tensor.mutable_grad() = gradient;  // Few of them take sparse ones.
    }
    for (std::size_t group = 0; group < rates_.size(); ++group) {
      optimizer_->param_groups()[group].options().set_lr(rates_[group] * factor);
    }
    optimizer_->step();
  }

  std::vector<checkpoint::TensorView> state() override {
    state_ = readState(*optimizer_, names_);
    return viewsOf(state_);
  }

  Status restore(std::span<const checkpoint::TensorView> saved) override {
    try {
      writeState(*optimizer_, names_, tensorsOf(saved));
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      return {StatusCode::kMismatch, "the optimizer's state in the checkpoint does not fit: " +
                                         text.substr(0, text.find('\n'))};
    }
    return {};
  }

 private:
  std::vector<Parameter> parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<double> rates_;  // Of each group, before the schedule.
  std::vector<std::string> names_;
  NamedTensors state_;  // What state() last gave out.
};

}  // namespace

double squaresOf(const torch::Tensor& gradient) {
  const auto count = static_cast<std::size_t>(gradient.is_sparse() ? gradient._values().numel()
                                                                   : gradient.numel());
  if (gradient.is_sparse()) {
    const torch::Tensor values = gradient._values();
    const auto rows = static_cast<std::size_t>(values.size(0));
    double sum = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t width = count / rows;
      sum += optim::sumOfSquares(std::span(values.const_data_ptr<float>() + row * width, width));
    }
    return sum;
  }
  if (gradient.scalar_type() == torch::kFloat64) {
    return optim::sumOfSquares(std::span(gradient.const_data_ptr<double>(), count));
  }
  const torch::Tensor floats = gradient.to(torch::kFloat32);
  return optim::sumOfSquares(std::span(floats.const_data_ptr<float>(), count));
}

double clipFactorOf(std::span<const torch::Tensor> gradients, double maxNorm) {
  if (maxNorm == 0) return 1;
  double sum = 0;
  for (const torch::Tensor& gradient : gradients) {
    if (gradient.defined()) sum += squaresOf(gradient);
  }
  return optim::clipFactor(std::sqrt(sum), maxNorm);
}

std::unique_ptr<Updater> makeUpdater(const Optimizer& optimizer, std::vector<Parameter> parameters,
                                     const Workers* common) {
  if (const auto* options = std::get_if<OptimizerOptions>(&optimizer)) {
    const bool shares = common != nullptr && common->host != nullptr;
    return std::make_unique<RuleUpdater>(*options, std::move(parameters),
                                         shares ? &common->job : nullptr,
                                         shares ? common->host : nullptr);
  }
  return std::make_unique<TorchUpdater>(std::get<TorchOptimizer>(optimizer), std::move(parameters));
}

}  // namespace colla::train
