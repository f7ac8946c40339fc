#include "train/updater.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "checkpoint/restore.h"
#include "colla/error.h"
#include "optim/norm.h"
#include "optim/update_rule.h"
#include "train/tensors.h"
#include "train/torch_state.h"

namespace colla::train {
namespace {

// Colla's own kernels.
class RuleUpdater final : public Updater {
 public:
  RuleUpdater(const OptimizerOptions& options, std::vector<Parameter> parameters)
      : rule_(valueOrThrow(optim::UpdateRule::make(options))), parameters_(std::move(parameters)) {
    for (const Parameter& parameter : parameters_) {
      const DataType type = dataTypeOf(parameter.tensor, parameter.name);
      if (type != DataType::kFloat32 && type != DataType::kFloat64) {
        throw Error(StatusCode::kUnsupported,
                    fmt::format("parameter \"{}\" is {}: Colla's optimizers take float32 and "
                                "float64; use a torch::optim class",
                                parameter.name, toString(type)));
      }
      State& state = states_.emplace_back();
      for (const optim::Slot& slot : rule_.slots()) {
        state.slots.push_back(torch::full_like(parameter.tensor.detach(), slot.initial));
      }
    }
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
    forEach([&](const std::string& name, DataType type, checkpoint::Shape shape,
                std::span<std::byte> bytes) {
      targets.push_back({name, type, std::move(shape), bytes});
    });
    return checkpoint::restore(saved, targets);
  }

 private:
  struct State {
    std::int64_t step = 0;  // Updates that the parameter has had.
    std::vector<torch::Tensor> slots;
  };

  template <typename T>
  static std::span<T> spanOf(const torch::Tensor& tensor) {
    return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
  }

  template <typename T>
  void applyTo(std::size_t i, const optim::Update& update, const torch::Tensor& gradient) {
    std::array<std::span<T>, optim::kMaxSlots> slots;
    for (std::size_t slot = 0; slot < states_[i].slots.size(); ++slot) {
      slots[slot] = spanOf<T>(states_[i].slots[slot]);
    }
    if (gradient.is_sparse()) {
      const torch::Tensor& parameter = parameters_[i].tensor;
      rule_.applyRows<T>(update, spanOf<T>(parameter),
                         static_cast<std::size_t>(parameter.numel() / parameter.size(0)),
                         spanOf<std::int64_t>(gradient._indices()), spanOf<T>(gradient._values()),
                         std::span(slots).first(states_[i].slots.size()));
      return;
    }
    rule_.apply<T>(update, spanOf<T>(parameters_[i].tensor), spanOf<T>(gradient),
                   std::span(slots).first(states_[i].slots.size()));
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

std::unique_ptr<Updater> makeUpdater(const Optimizer& optimizer,
                                     std::vector<Parameter> parameters) {
  if (const auto* options = std::get_if<OptimizerOptions>(&optimizer)) {
    return std::make_unique<RuleUpdater>(*options, std::move(parameters));
  }
  return std::make_unique<TorchUpdater>(std::get<TorchOptimizer>(optimizer), std::move(parameters));
}

}  // namespace colla::train
