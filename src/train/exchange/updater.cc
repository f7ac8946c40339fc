#include "train/exchange/updater.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "checkpoint/restore.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "collective/reduction.h"
#include "optim/norm.h"
#include "optim/update_rule.h"
#include "train/exchange/common_tensors.h"
#include "train/tensors.h"
#include "train/torch_state.h"
#include "train/user_code.h"

namespace colla::train {
namespace {

Status checkType(const Parameter& parameter) {
  const DataType type = memoryOf(parameter.tensor, parameter.name).type();
  if (type == DataType::kFloat32 || type == DataType::kFloat64) return {};
  return {StatusCode::kUnsupported,
          fmt::format("parameter \"{}\" is {}: Colla's optimizers take float32 and float64; use a "
                      "torch::optim class",
                      parameter.name, toString(type))};
}

// Colla's own kernels.
class RuleUpdater final : public Updater {
 public:
  // `options`: of parameters that have none of their own. `common`: to allocate from and the
  // workers of this host; both null: nothing is in common.
  RuleUpdater(const OptimizerOptions& options, std::vector<Parameter> parameters, Job* job,
              Group* common)
      : parameters_(std::move(parameters)), common_(common) {
    std::size_t room = 0;
    std::size_t withSlots = 0;
    for (const Parameter& parameter : parameters_) {
      throwIfError(checkType(parameter));
      rules_.push_back(
          valueOrThrow(optim::UpdateRule::make(parameter.optimizer.value_or(options))));
      room += CommonTensors::roomFor(parameter.tensor);
      withSlots += CommonTensors::roomFor(parameter.tensor) * (1 + rules_.back().slots().size());
    }
    std::optional<CommonTensors> memory;
    if (common_ != nullptr) memory.emplace(*job, withSlots);
    const collective::Range share =
        common_ == nullptr ? collective::Range{0, room}
                           : collective::chunkOf(room, common_->size(), common_->rank());
    std::size_t at = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& parameter = parameters_[i];
      State& state = states_.emplace_back();
      const torch::Tensor tensor = parameter.tensor.detach();
      if (memory) {
        const torch::Tensor ours = memory->make(tensor);
        if (fills()) ours.copy_(tensor);
        parameter.tensor.set_data(ours);
      }
      for (const optim::Slot& slot : rules_[i].slots()) {
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
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const optim::Update update{.step = ++states_[i].step,
                                 .lr = learningRate(rules_[i].options()) * factor,
                                 .gradScale = scale};
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
      rules_[i].apply<T>(update, part(spanOf<T>(parameter)), part(spanOf<T>(gradient)), used);
      return;
    }
    const auto width = static_cast<std::size_t>(parameter.numel() / parameter.size(0));
    const auto count = static_cast<std::size_t>(gradient._values().size(0));
    const auto [begin, end] = rowsOf(count);
    rules_[i].applyRows<T>(
        update, spanOf<T>(parameter), width,
        spanOf<std::int64_t>(gradient._indices()).subspan(begin, end - begin),
        spanOf<T>(gradient._values()).subspan(begin * width, (end - begin) * width), used);
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
        visit(fmt::format("{}/{}", name, rules_[i].slots()[slot].name), memory.type(),
              tensor.sizes().vec(), memory.bytes());
      }
    }
  }

  const std::vector<Parameter> parameters_;
  std::vector<optim::UpdateRule> rules_;  // Of each of them.
  Group* const common_;  // The workers of this host, who have all of this in common; may be null.
  std::vector<State> states_;
};

// One of the program's own, or any torch::optim class.
class OwnUpdater final : public Updater {
 public:
  OwnUpdater(const Optimizer& optimizer, std::vector<Parameter> parameters)
      : parameters_(std::move(parameters)) {
    NamedTensors tensors;
    for (const Parameter& parameter : parameters_) {
      tensors.emplace_back(parameter.name, parameter.tensor);
    }
    optimizer_ = makeOwn(optimizer, std::move(tensors));
  }

  void apply(std::span<const torch::Tensor> gradients, double factor, double scale) override {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      torch::Tensor gradient = gradients[i];
      if (gradient.defined() && scale != 1) gradient.mul_(scale);
      if (gradient.defined() && gradient.is_sparse()) gradient = gradient.to_dense();
      parameters_[i].tensor.mutable_grad() = gradient;  // Few of them take sparse ones.
    }
    callUser([] { return "the optimizer"; },
             [&] {
               if (std::exchange(factor_, factor) != factor) optimizer_->setLearningRate(factor);
               optimizer_->step();
             });
  }

  std::vector<checkpoint::TensorView> state() override {
    state_ = contiguous(
        callUser([] { return "the optimizer's state()"; }, [this] { return optimizer_->state(); }));
    return viewsOf(state_);
  }

  Status restore(std::span<const checkpoint::TensorView> saved) override {
    callUser([] { return "the optimizer's restore()"; },
             [&] { optimizer_->restore(tensorsOf(saved)); });
    factor_ = std::numeric_limits<double>::quiet_NaN();  // The state may have had one of its own.
    return {};
  }

 private:
  const std::vector<Parameter> parameters_;
  std::unique_ptr<OwnOptimizer> optimizer_;
  double factor_ = 1;   // That the learning rate was last multiplied by.
  NamedTensors state_;  // What state() last gave out.
};

// What a program's own maker returns: never null.
template <typename Make>
auto made(const Make& make) -> decltype(make()) {
  auto optimizer = callUser([] { return "the task's optimizer"; }, make);
  if (optimizer == nullptr) {
    throw Error(StatusCode::kInvalidArgument,
                "the task's optimizer gave a null pointer: return an optimizer of the parameters "
                "that make() gets");
  }
  return optimizer;
}

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

std::unique_ptr<torch::optim::Optimizer> makeTorch(const TorchOptimizer& optimizer,
                                                   std::vector<torch::Tensor> parameters) {
  return made([&] { return optimizer.make(std::move(parameters)); });
}

std::unique_ptr<OwnOptimizer> makeOwn(const Optimizer& optimizer, NamedTensors parameters) {
  if (const auto* const own = std::get_if<OwnOptimizerMaker>(&optimizer)) {
    return made([&] { return own->make(std::move(parameters)); });
  }
  std::vector<torch::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  return asOwnOptimizer(makeTorch(std::get<TorchOptimizer>(optimizer), std::move(tensors)),
                        std::move(parameters));
}

Status checkOptimizer(const Optimizer& optimizer, std::span<const Parameter> parameters) {
  NamedTensors tensors;
  for (const Parameter& parameter : parameters) {
    if (std::holds_alternative<OptimizerOptions>(optimizer)) COLLA_TRY(checkType(parameter));
    tensors.emplace_back(parameter.name, parameter.tensor);
  }
  if (!std::holds_alternative<OptimizerOptions>(optimizer)) makeOwn(optimizer, std::move(tensors));
  return {};
}

std::unique_ptr<Updater> makeUpdater(const Optimizer& optimizer, std::vector<Parameter> parameters,
                                     const Workers* common) {
  if (const auto* options = std::get_if<OptimizerOptions>(&optimizer)) {
    const bool shares = common != nullptr && common->host != nullptr;
    return std::make_unique<RuleUpdater>(*options, std::move(parameters),
                                         shares ? &common->job : nullptr,
                                         shares ? common->host : nullptr);
  }
  return std::make_unique<OwnUpdater>(optimizer, std::move(parameters));
}

}  // namespace colla::train
