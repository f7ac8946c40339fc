#include "train/optimizer_trial.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string_view>
#include <typeinfo>

#include "colla/error.h"
#include "train/exchange/updater.h"
#include "train/torch_state.h"

namespace colla::train {
namespace {

// Saved after so many steps; the first one is often a special one. What an optimizer does every few
// steps is not due after both of them.
constexpr std::array kSavedAfter = {2, 3};
// Steps in all. State that was lost may show one step later, or only every few steps, as that of a
// Lookahead does: as many as take a large model about a second.
constexpr std::int64_t kLeastSteps = 5;
constexpr std::int64_t kMostSteps = 60;
constexpr std::int64_t kElements = std::int64_t{1} << 25;

bool isOfLibtorch(const torch::optim::Optimizer& optimizer) {
  const std::array known = {&typeid(torch::optim::SGD), &typeid(torch::optim::Adagrad),
                            &typeid(torch::optim::RMSprop), &typeid(torch::optim::Adam),
                            &typeid(torch::optim::AdamW)};
  return std::ranges::any_of(known, [&](const auto* type) { return *type == typeid(optimizer); });
}

// libtorch's default generator as it was before, whatever the trial draws: worker 0 alone may try.
class KeptGenerator {
 public:
  KeptGenerator() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~KeptGenerator() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

// Copies of the parameters, with an optimizer of their own.
class Subject {
 public:
  Subject(const Optimizer& optimizer, std::span<const Parameter> like) {
    NamedTensors tensors;
    for (const Parameter& parameter : like) {
      const torch::Tensor copy = parameter.tensor.detach().clone().set_requires_grad(true);
      parameters_.push_back({parameter.name, copy});
      tensors.emplace_back(parameter.name, copy);
    }
    optimizer_ = makeOwn(optimizer, std::move(tensors));
  }

  // Step `number`: the same gradients, and the same random numbers, for every subject.
  void step(int number) {
    torch::manual_seed(static_cast<std::uint64_t>(number));
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(number));
    for (const Parameter& parameter : parameters_) {
      parameter.tensor.mutable_grad() =
          torch::randn(parameter.tensor.sizes(), generator, parameter.tensor.options())
              .set_requires_grad(false);
    }
    const torch::NoGradGuard noGrad;
    optimizer_->step();
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  OwnOptimizer& optimizer() { return *optimizer_; }

 private:
  std::vector<Parameter> parameters_;
  std::unique_ptr<OwnOptimizer> optimizer_;
};

// By way of a checkpoint's views, which hold contiguous tensors and nothing else.
NamedTensors savedState(Subject& subject) {
  const NamedTensors state = contiguous(subject.optimizer().state());
  return tensorsOf(viewsOf(state));
}

bool sameBytes(const torch::Tensor& a, const torch::Tensor& b) {
  return std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

std::string nameOf(const Optimizer& optimizer) {
  const auto* const chosen = std::get_if<TorchOptimizer>(&optimizer);
  const std::string& text =
      chosen != nullptr ? chosen->text : std::get<OwnOptimizerMaker>(optimizer).text;
  return text.empty() ? "the optimizer" : fmt::format("the optimizer \"{}\"", text);
}

Status cannotSave(const Optimizer& optimizer, std::string_view why) {
  return {StatusCode::kUnsupported,
          fmt::format("{} can't be saved: {}; make it a colla::OwnOptimizer whose state() has all "
                      "that a step depends on, or train without --checkpoint-dir",
                      nameOf(optimizer), why)};
}

int stepsFor(std::span<const Parameter> parameters) {
  std::int64_t elements = 1;
  for (const Parameter& parameter : parameters) elements += parameter.tensor.numel();
  return static_cast<int>(std::clamp(kElements / elements, kLeastSteps, kMostSteps));
}

// Whether any of `subject`'s parameters is not what it began with, `parameters`.
bool hasMoved(const Subject& subject, std::span<const Parameter> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& now = subject.parameters()[i].tensor;
    if (!sameBytes(now, parameters[i].tensor.contiguous())) return true;
  }
  return false;
}

// The first step that moves anything must not be the same at half the rate. An optimizer may only
// collect gradients in the steps before it.
Status trySchedule(const Optimizer& optimizer, std::span<const Parameter> parameters) {
  Subject whole(optimizer, parameters);
  Subject half(optimizer, parameters);
  half.optimizer().setLearningRate(0.5);
  const int steps = stepsFor(parameters);
  for (int step = 0; step < steps && !hasMoved(whole, parameters); ++step) {
    whole.step(step);
    half.step(step);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& moved = whole.parameters()[i].tensor;
    const bool stays = sameBytes(moved, parameters[i].tensor.contiguous());
    if (stays || !sameBytes(moved, half.parameters()[i].tensor)) continue;
    return {
        StatusCode::kUnsupported,
        fmt::format("{} ignores the learning-rate schedule: with half the rate it changes \"{}\" "
                    "by as much; make it a colla::OwnOptimizer with setLearningRate(), or train "
                    "without a schedule",
                    nameOf(optimizer), parameters[i].name)};
  }
  return {};
}

// One that goes on from what `straight` saves; an error where its state can't be saved or restored.
Result<Subject> resumedFrom(Subject& straight, const Optimizer& optimizer) {
  Subject resumed(optimizer, straight.parameters());
  try {
    resumed.optimizer().restore(savedState(straight));
  } catch (const Error& error) {
    return cannotSave(optimizer, error.status().message());
  }
  return resumed;
}

// A restored optimizer must step as one that was never saved.
Status trySave(const Optimizer& optimizer, std::span<const Parameter> parameters) {
  Subject straight(optimizer, parameters);
  std::vector<Subject> resumed;
  const int steps = stepsFor(parameters);
  for (int step = 0; step < steps; ++step) {
    if (std::ranges::find(kSavedAfter, step) != kSavedAfter.end()) {
      COLLA_TRY_ASSIGN(Subject subject, resumedFrom(straight, optimizer));
      resumed.push_back(std::move(subject));
    }
    straight.step(step);
    for (Subject& subject : resumed) subject.step(step);
  }
  for (const Subject& subject : resumed) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (sameBytes(straight.parameters()[i].tensor, subject.parameters()[i].tensor)) continue;
      return cannotSave(optimizer, fmt::format("after a restore of the state that it gives, it "
                                               "changes \"{}\" differently",
                                               parameters[i].name));
    }
  }
  return {};
}

}  // namespace

Status tryOptimizer(const Task& task, const RunPlan& plan, std::span<const Parameter> parameters) {
  const Optimizer& optimizer = task.optimizer;
  if (std::holds_alternative<OptimizerOptions>(optimizer)) return {};
  const KeptGenerator kept;
  if (const auto* const chosen = std::get_if<TorchOptimizer>(&optimizer)) {
    std::vector<torch::Tensor> tensors;
    for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
    if (isOfLibtorch(*makeTorch(*chosen, std::move(tensors)))) return {};
  }
  if (scheduleOf(task, plan) != Schedule()) COLLA_TRY(trySchedule(optimizer, parameters));
  return plan.options.directory.empty() ? Status() : trySave(optimizer, parameters);
}

}  // namespace colla::train
